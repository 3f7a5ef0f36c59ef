"""The playground: one page that trains a network while the user draws, or shows the inside of a model."""

from .page import build_page

__all__ = ["build_page"]
