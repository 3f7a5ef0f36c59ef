"""Run a command as two ranks, forked from one process so that imports are paid once.

    python worker_commands.py FOLDER CASE…

A case is JSON: the ``words`` of the command, and optionally a ``signal`` that is sent to rank ``to`` once
``FOLDER/run<number>`` has a layer. Unless ``agent`` is false a process that outlives both keeps the store, like
torchrun. The exit codes of each case are printed; the output of the ranks goes to ``FOLDER/<number>.<rank>.txt``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from rescnet.cli import app, errors, resume, train  # noqa: F401  (so that the children need not import them)
from rescnet.training.distributed import watchdog as heartbeat


def attempt(words, rank, port, agent, said, error_file):
    """Run a command as a rank in a child; return its process id."""
    child = os.fork()
    if child:
        return child
    ranks = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    ranks |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": agent, "TORCHELASTIC_ERROR_FILE": error_file}
    os.environ.update({key: str(value) for key, value in ranks.items()})
    code = 70
    try:
        with said.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            app(words)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stderr.flush()
        os._exit(code)


def one_case(number, case, folder):
    """Start the ranks of a case; return a function that collects their exit codes."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20))
    port, place = store.port, folder / f"run{number}"
    if not case.get("agent", True):
        del store  # the first worker keeps one, at a port that was free
        store = None
    words = [*case["words"], *(["--out", str(place)] if "signal" in case else [])]
    files = [(folder / f"{number}.{rank}.txt", folder / f"{number}.{rank}.json") for rank in (0, 1)]
    children = [attempt(words, rank, port, bool(store), *files[rank]) for rank in (0, 1)]

    def codes():
        if "signal" in case:
            end = time.monotonic() + 30
            while not list(place.glob("layers/*.safetensors")) and time.monotonic() < end:
                time.sleep(0.02)
            os.kill(children[case["to"]], getattr(signal, case["signal"]))
        found = []
        for child in children:
            if found and case.get("signal") == "SIGSTOP":  # torchrun ends a suspended rank like this
                os.kill(child, signal.SIGKILL)
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return found if store is None or store.port else None  # the store lives until here

    return codes


def main():
    folder, *cases = sys.argv[1:]
    heartbeat.BEAT, heartbeat.SILENCE, errors.RANK0_GRACE_SECONDS = 0.25, 8.0, 0.2
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without
    started = [one_case(number, json.loads(case), Path(folder)) for number, case in enumerate(cases)]
    print(json.dumps([codes() for codes in started]))


if __name__ == "__main__":
    main()
