"""Experiments of the commands ``reproduce``, ``bench`` and ``compare``."""
