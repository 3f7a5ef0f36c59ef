"""Small charts as SVG text, drawn without any plotting library: lines over an axis, and stacked bars."""

from .bars import stacked_bars
from .lines import Line, Mark, line_chart

__all__ = ["Line", "Mark", "line_chart", "stacked_bars"]
