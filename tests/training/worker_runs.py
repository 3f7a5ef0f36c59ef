"""Trains networks with several workers, forked from one process that has imported everything once.

    python worker_runs.py COUNT FOLDER CASE…

Each case is JSON: options of the network, and under "compute" those of the machine. With "steps" a readout is fitted
by conjugate gradients; with "resumed" it is fitted again from the solution n steps before its end; with "metric" it
learns a metric; with "weighted" images have weights. Rank 0 writes its result to ``FOLDER/<number>.pt``.
With ``--die RANK`` that worker kills itself after two layers of the first case, and with ``--fail RANK`` it raises an
error.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from gratings import gratings

from rescnet import ComputeOptions, NetworkConfig
from rescnet.training.listener import Listener
from rescnet.training.readout import fit, iterative
from rescnet.training.run import TrainingRun
from rescnet.training.workers import join_workers


class Solutions(Listener):
    """Listener that keeps the solutions so far of a readout."""

    def __init__(self):
        self.heard = []

    def readout_step(self, steps, residual, solution):
        self.heard.append(solution.clone())


def one_case(case, workers, ends=None):
    options = json.loads(case)
    compute = ComputeOptions(device="cpu", **options.pop("compute", {}))
    weighted = options.pop("weighted", False)
    metric_from = 1 if options.pop("metric", False) else fit.METRIC_FROM
    exact_bytes = (lambda *_: 2**60) if options.pop("steps", False) else fit.exact_bytes
    resumed, listener = options.pop("resumed", 0), Solutions()
    images, labels = gratings()
    test = images[171:], labels[171:]
    config = NetworkConfig(**options)
    weights = 0.5 + labels[:171] % 3 if weighted else None
    how = {"test": test, "weights": weights, "compute": compute, "workers": workers, "listener": listener}
    run = TrainingRun(images[:171], labels[:171], config, **how)
    landmarks = (10, 10) if resumed else iterative.LANDMARKS
    with (
        patch.object(fit, "exact_bytes", exact_bytes),
        patch.object(fit, "METRIC_FROM", metric_from),
        patch.object(iterative, "LANDMARKS", landmarks),
    ):
        for record in run:
            if ends and record.layer == 2:
                ends()
        if resumed:
            how |= {"start": (run.network, run.history), "readout_start": listener.heard[-1 - resumed]}
            run.history.readout = None
            run = TrainingRun(images[:171], labels[:171], config, **how)
            listener.heard.clear()
            list(run)
            assert resumed <= len(listener.heard) == run.history.readout.steps < 3 * resumed  # none in the first
    accuracies = [(r.train_accuracy, r.test_accuracy, round(r.positive_share, 12)) for r in run.history]
    readout = run.history.readout
    if readout:
        accuracies.append((readout.test_accuracy, readout.ridge, readout.steps > 0))
    return {"outputs": run.network.outputs(images), "accuracies": accuracies}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise ValueError("this worker fails")


def worker(rank, count, port, folder, cases, ends):
    environment = {
        "RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": count,
        "MASTER_PORT": port,
    }
    os.environ.update({key: str(value) for key, value in environment.items()} | {"MASTER_ADDR": "127.0.0.1"})
    with join_workers("cpu") as workers:
        for number, case in enumerate(cases):
            found = one_case(case, workers, ends.get(rank))
            if workers.is_rank0:
                torch.save(found, folder / f"{number}.pt")


def main():
    words = sys.argv[1:]
    ends = {}
    for word, how in (("--die", die), ("--fail", fail)):
        if word in words:
            ends[int(words.pop(words.index(word) + 1))] = how
            words.remove(word)
    count, folder, *cases = words
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(int(count)):
        child = os.fork()
        if not child:
            try:
                worker(rank, int(count), port, Path(folder), cases, ends)
                os._exit(0)
            except BaseException as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                sys.stderr.flush()
                os._exit(1)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
