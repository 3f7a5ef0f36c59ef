"""The command line, thin: parse, call, print. One command a file."""

from .app import app, main

__all__ = ["app", "main"]
