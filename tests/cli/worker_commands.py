"""Run a command as two ranks, forked from one process so that imports are paid once.

    python worker_commands.py FOLDER CASE…

A case is JSON: the ``words`` of the command, and optionally a ``signal`` that is sent to the ranks ``to`` once
``FOLDER/run<number>`` has two layers. With ``torchrun`` the other rank is ended as soon as one has failed. The exit
codes of each case are printed; the output of the ranks goes to ``FOLDER/<number>.<rank>.txt``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch

from rescnet.cli import app, errors, resume, train  # noqa: F401  (so that the children need not import them)
from rescnet.training import workers


def attempt(words, rank, port, said):
    """Run a command as a rank in a child; return its process id."""
    child = os.fork()
    if child:
        return child
    ranks = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ.update({key: str(value) for key, value in ranks.items()} | {"MASTER_ADDR": "127.0.0.1"})
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = folder / f"run{number}"
    words = [*case["words"], *(["--out", str(place)] if "signal" in case else [])]
    children = [attempt(words, rank, port, folder / f"{number}.{rank}.txt") for rank in (0, 1)]

    def codes():
        if "signal" in case:
            end = time.monotonic() + 60
            while len(list(place.glob("layers/*.safetensors"))) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            for rank in case["to"]:
                os.kill(children[rank], getattr(signal, case["signal"]))
        found = {}
        while len(found) < len(children):
            for child in children:
                if child not in found and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    found[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for child in children if case.get("torchrun") and any(found.values()) else ():
                if child not in found:
                    os.kill(child, signal.SIGTERM)
            if any(found.values()) and case.get("signal") == "SIGSTOP" and children[1] not in found:
                os.kill(children[1], signal.SIGKILL)
            time.sleep(0.02)
        return [found[child] for child in children]

    return codes


def main():
    folder, *cases = sys.argv[1:]
    workers.LONGEST_WAIT, errors.GRACE_SECONDS = timedelta(seconds=8), 3.0
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without
    started = [one_case(number, json.loads(case), Path(folder)) for number, case in enumerate(cases)]
    print(json.dumps([codes() for codes in started]))


if __name__ == "__main__":
    main()
