"""Images to learn from: the public sets in the layouts their authors publish, and your own.

>>> from rescnet import data
>>> data.load("digits").shape
(1, 8, 8)
"""

from .errors import DataError
from .fetching import default_root
from .image_set import Dataset, ImageSet
from .loading import DatasetRow, describe, load

__all__ = ["DataError", "Dataset", "DatasetRow", "ImageSet", "default_root", "describe", "load"]
