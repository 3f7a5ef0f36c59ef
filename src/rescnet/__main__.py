"""``python -m rescnet`` and the ``rescnet`` command."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C while PyTorch is still loading is answered like any other."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
