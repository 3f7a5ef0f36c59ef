"""Small charts as SVG text, drawn without any plotting library: lines over an axis, stacked bars, ladders."""

from .bars import stacked_bars
from .ladder import ladder_chart
from .lines import Line, Mark, line_chart

__all__ = ["Line", "Mark", "ladder_chart", "line_chart", "stacked_bars"]
