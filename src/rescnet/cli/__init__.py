"""The command line: one command per file, each of which parses, calls the library and prints."""

from .app import app, main

__all__ = ["app", "main"]
