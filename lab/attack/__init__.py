"""Attack on files: kills at any moment, altered models and altered data sets, with the outcomes counted."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a forked process cannot use more threads
