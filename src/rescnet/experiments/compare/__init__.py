"""The league table: several models on the same images, their accuracy, time, memory and size."""

from .candidates import model_names, parse_models
from .compare import Row, compare_models
from .plot import draw_league

__all__ = ["Row", "compare_models", "draw_league", "model_names", "parse_models"]
