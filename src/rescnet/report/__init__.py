"""HTML report of a trained network: how it works, what it gets wrong, and which layers correct it."""

from .page import write_report

__all__ = ["write_report"]
