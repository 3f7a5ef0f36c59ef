"""Attack files, count the outcomes, and append them to the record.

    python -m lab.attack kills  --count 1000
    python -m lab.attack models --count 100000
    python -m lab.attack data   --count 20000

The outcomes are: a clean error, the same answer, another valid answer (of a file without a checksum, or with a forged
one), a wrong answer, a traceback, a hang. The last three must not occur; the exit code is 1 if they do.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from ..provenance import origin, shown_command
from ..records import append_bench
from .data_files import attack_data
from .kills import attack_with_kills
from .models import attack_models
from .outcomes import Tally

ATTACKS = {"kills": attack_with_kills, "models": attack_models, "data": attack_data}
COUNTS = {"kills": 1000, "models": 100_000, "data": 20_000}


def main() -> None:
    """Attack, print the outcomes, and append them to the record."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("what", choices=list(ATTACKS))
    made.add_argument("--count", type=int, default=None, help="number of attacks")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--seconds", type=float, default=None, help="time limit")
    made.add_argument("--no-record", action="store_true", help="only print")
    arguments = made.parse_args()
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="attack-", dir=memory if memory.is_dir() else None))
    tally = Tally(arguments.count or COUNTS[arguments.what], arguments.seconds)
    try:
        ATTACKS[arguments.what](tally, arguments.seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(tally.outcomes)
    if not arguments.no_record:
        facts = origin("cpu", shown_command("lab.attack"))
        facts |= {"question": "attack", "seed": arguments.seed, **tally.result()}
        print(append_bench({"file": "attack", "name": arguments.what, **facts}))
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
