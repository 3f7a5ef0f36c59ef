"""Data sets of labelled images: the public ones, and your own folders and arrays.

>>> from rescnet import data
>>> data.load("digits").shape
(1, 8, 8)
"""

from .fetch import default_root
from .image_set import Dataset, ImageSet
from .loading import DatasetRow, describe, load

__all__ = ["Dataset", "DatasetRow", "ImageSet", "default_root", "describe", "load"]
