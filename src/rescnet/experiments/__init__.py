"""Commands that measure: ``reproduce``, ``bench`` and ``compare``."""
