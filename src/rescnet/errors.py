"""Errors of the library, which share a base class."""

from __future__ import annotations


class RescnetError(Exception):
    """Base class of all errors that this library defines."""


class ConfigError(RescnetError, ValueError):
    """An option or an argument with a value that it cannot have."""


class DataError(RescnetError, ValueError):
    """Images or labels that cannot be used: missing, damaged, or of the wrong shape."""


class ModelFileError(RescnetError, ValueError):
    """A model's folder that cannot be read or written."""


class TooLittleMemoryError(RescnetError, MemoryError, ValueError):
    """A limit of memory that is too small for the network and the images."""
