"""The league of a data set, member by member in processes of their own: one that fails or hangs costs its row alone.

    python benchmarks/leagues.py digits --device cuda --seconds 60                     one process, one member at a time
    python benchmarks/leagues.py cifar10 --device cuda --seconds 400 --member-seconds 60
    python benchmarks/leagues.py mnist --at-once 6 --threads 2 --memory 14GB --seconds 560

Every row goes to a file of its own under ``--parts`` as soon as it is there; then ``league-DATASET.json`` and its plot
are written from all of them. Run again, it goes on with the members that have no row of this commit. Rows say how many
members ran at once, and on how many threads each. ``--models`` with ``--keep league.json`` measures some members anew
and keeps the other rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
from league_lanes import Task, run_lanes  # noqa: E402
from tables.league import picture  # noqa: E402

from rescnet.experiments.compare import Row  # noqa: E402
from rescnet.experiments.provenance import commit, origin, shown_command  # noqa: E402
from rescnet.family import member_names  # noqa: E402
from rescnet.formatting import parse_bytes  # noqa: E402

RESCNET = {
    "mnist": "rescnet:layers=3:filters=20",
    "fashion-mnist": "rescnet:layers=3:filters=20",
    "cifar10": "rescnet:layers=60:block_stride=4",
}
"""ResCNet at a size that takes about as long as the others; its full depth is Table 2's."""
LARGE = {"dfsnet-3": (3, 2), "pcanet-plus": (1, 2)}
"""Members that get so many times the memory and the threads of the others, where a process has one member alone."""
LONGEST_FIRST = ("dfsnet-3", "pcanet-ii", "pcanet-plus", "multilayer-pcanet", "ldanet", "dccnet", "osnet")


def members_of(dataset: str, models: str, choices: dict[str, str]) -> list[str]:
    """Return the models to run, longest first, each with the options chosen for it."""
    named = [*member_names(), RESCNET.get(dataset, "rescnet")] if models == "all" else models.split(",")
    chosen = [f"{name}:{choices[name]}" if choices.get(name) else name for name in named]
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    return sorted(chosen, key=lambda model: rank.get(model.split(":")[0], len(rank)))


def choices_in(file: Path | None) -> dict[str, str]:
    """Return the options chosen for members; none, and a word about it, where the choosing left no file."""
    if file is None:
        return {}
    if not file.exists():
        print(f"{file} is not there: every member is as its preset has it", flush=True)
        return {}
    chosen: dict[str, str] = json.loads(file.read_text())["chosen"]
    return chosen


def command_for(arguments: argparse.Namespace, members: list[str], file: Path) -> list[str]:
    """Return the command that measures some members and writes their rows."""
    words = ["--dataset", arguments.dataset, "--models", ",".join(members), "--device", arguments.device]
    if arguments.memory is not None:
        words += ["--memory", str(parse_bytes(arguments.memory) * _times(members)[0])]
    for name in ("held_out", "splits", "limit"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return [sys.executable, "-m", "rescnet", "compare", *words, "--out", str(file)]


def _times(members: list[str]) -> tuple[int, int]:
    return LARGE.get(members[0].split(":")[0], (1, 1)) if len(members) == 1 else (1, 1)


def part_file(folder: Path, member: str) -> Path:
    """Return where a member's row lies."""
    return folder / f"{member.replace(':', '+').replace('/', '-')}.json"


def rows_there(folder: Path, members: list[str], here: str) -> dict[str, dict[str, Any]]:
    """Return the rows that were measured at a commit, by member."""
    found = {}
    for member in members:
        file = part_file(folder, member)
        if file.exists():
            row = json.loads(file.read_text())
            if row["commit"] == here and row["accuracy"] is not None:
                found[member] = row
    return found


def rows_kept(file: Path | None, members: list[str]) -> list[dict[str, Any]]:
    """Return the rows of an earlier league whose models, whatever their options, are not among the members."""
    if file is None:
        return []
    again = {member.split(":")[0] for member in members}
    return [row for row in json.loads(file.read_text()) if row["model"].split(":")[0] not in again]


def failed_row(dataset: str, member: str, error: str, device: str) -> dict[str, Any]:
    """Return the row of a member whose process gave none."""
    facts = origin(torch.device("cpu"), shown_command("python", "benchmarks/leagues.py")) | {"device": device}
    row = {"name": f"league-{dataset}", **asdict(Row(member, error=error)), "dataset": dataset, **facts}
    return row | {"protocol": None, "train_images": None, "seed": 0}


def join(rows: list[dict[str, Any]], out: Path, name: str) -> None:
    """Write the league and its plot; what a failed row cannot know it takes from one that was measured."""
    if not rows:
        return
    measured = next((row for row in rows if row["accuracy"] is not None), None)
    for row in rows:
        for key in ("protocol", "train_images", "device"):
            if measured and row["accuracy"] is None:
                row[key] = measured[key]
    out.mkdir(parents=True, exist_ok=True)
    (out / f"league-{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    if measured:
        (out / f"league-{name}.svg").write_text(picture(rows, name))


def run_league(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the members that have no row yet, and return all rows there are."""
    choices = choices_in(arguments.choices)
    members = members_of(arguments.dataset, arguments.models, choices)
    parts: Path = arguments.parts or ROOT / "runs" / f"league-{arguments.dataset}-{arguments.device}"
    parts.mkdir(parents=True, exist_ok=True)
    os.environ["RESCNET_COMMIT"] = here = commit()  # of all rows, even if files change meanwhile
    rows = rows_there(parts, members, here)
    kept = rows_kept(arguments.keep, members)

    def write() -> None:
        done = [rows[name] for name in members if name in rows]
        join([*kept, *done] if done else [], arguments.out, arguments.name or arguments.dataset)

    missing = [member for member in members if member not in rows]
    print(f"{arguments.dataset}: {len(rows)} rows are there, {len(missing)} members to run", flush=True)

    def threads_for(some: list[str]) -> int:
        return int(arguments.threads * (_times(some)[1] if arguments.at_once > 1 else 1))

    def heard(member: str, row: dict[str, Any] | None, error: str) -> None:
        row = row or failed_row(arguments.dataset, member, error, arguments.device)
        row |= {"at_once": arguments.at_once, "threads": threads_for([member])}
        part_file(parts, member).write_text(json.dumps(row, indent=1) + "\n")
        result = row["error"] if row["accuracy"] is None else f"{100 * row['accuracy']:.2f} %  {row['seconds']:.1f} s"
        print(f"{arguments.dataset:14} {member:40} {result}", flush=True)
        rows[member] = row
        write()

    task = Task(lambda some, file: command_for(arguments, some, file), parts, threads_for, heard)
    run_lanes(
        task, missing, arguments.at_once, arguments.member_seconds, arguments.seconds, together=arguments.at_once == 1
    )
    for member in members:
        if member not in rows:
            print(f"{arguments.dataset:14} {member:40} has no row: the time was over, run the same again", flush=True)
    write()
    return list(rows.values())


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("dataset")
    made.add_argument("--models", default="all", help="parted by commas, with options after colons")
    made.add_argument("--device", default="cpu")
    made.add_argument("--at-once", type=int, default=1, help="members that run at the same time")
    made.add_argument("--threads", type=int, default=2, help="of each")
    made.add_argument("--memory", default=None, help="of each, as 12GB; default: rescnet's own")
    made.add_argument("--seconds", type=float, default=540, help="of all: what then runs is stopped")
    made.add_argument("--member-seconds", type=float, default=480, help="of one: then it is stopped and has an error")
    made.add_argument("--name", default=None, help="of the files, league-NAME; default: the data set's")
    made.add_argument("--choices", type=Path, default=None, help="file of benchmarks/family_choices.py")
    made.add_argument("--held-out", type=float, default=None)
    made.add_argument("--splits", type=int, default=None)
    made.add_argument("--limit", type=int, default=None)
    made.add_argument("--parts", type=Path, default=None, help="folder of single rows; default: under runs/")
    made.add_argument("--keep", type=Path, default=None, help="an earlier league: rows of members not named now stay")
    made.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the league and its plot")
    return made


def main() -> None:
    """Run the league; exit 1 if nothing was measured."""
    arguments = parser().parse_args()
    started = time.monotonic()
    rows = run_league(arguments)
    failed = sum(row["accuracy"] is None for row in rows)
    print(f"{arguments.dataset}: {len(rows)} rows, {failed} failed, {time.monotonic() - started:.0f} s", flush=True)
    sys.exit(int(failed == len(rows)))


if __name__ == "__main__":
    main()
