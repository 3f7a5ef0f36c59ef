"""``python -m rescnet`` and the ``rescnet`` command."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
OBJECTS = 50_000  # between two garbage collections: imports create many objects, and looking at them takes 0.1 to 0.2 s


def main() -> None:
    """Run the command line; Ctrl-C during imports exits like any other interrupt."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # the errors of a lost rank are ours; PyTorch would print a stack
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    gc.set_threshold(OBJECTS)
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write("interrupted: nothing was written\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
