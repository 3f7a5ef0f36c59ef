"""Comparison of several models on the same images: the library code of ``rescnet compare`` and ``rescnet curve``."""
