"""One worker against two on this machine, and the arithmetic of a set a thousand times larger.

    python benchmarks/workers.py

Measured: seconds and exchanged bytes of a layer, the median of those after the first, with one thread a worker.
Reckoned, not measured: ImageNet at 64×64 (1.28 million images, 1,000 classes, the ``tiny-imagenet`` preset) on 8 and 64
GPUs. What grows with the images is scaled from ``results/layer-times-h200.json``, the update with the classes too, the
heads are taken as they are, and bytes are divided by the bandwidth assumed. Writes ``results/workers.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from memory_growth import CLASSES, CONFIG, write_images

from rescnet import ComputeOptions, make_config
from rescnet.experiments.provenance import commit
from rescnet.training.distributed.workers import join_workers
from rescnet.training.memory_plan import plan_memory
from rescnet.training.trainer import Trainer

LAYERS, IMAGES = 4, 6000
IMAGENET, IMAGENET_CLASSES, TINY_CLASSES, SHAPE = 1_281_167, 1000, 200, (3, 64, 64)
BANDWIDTH = {8: 300e9, 64: 40e9}  # bytes a second, assumed: NVLink within a machine, InfiniBand between machines
DRAWN = 38 * 34  # patches of the first batch of stacked-LDA draws at 20 such filters


def child(file: str) -> None:
    """Train as one of the workers; the first prints what was measured."""
    torch.set_num_threads(1)
    images = np.load(file, mmap_mode="r")
    with join_workers("cpu") as workers:
        trainer = Trainer(
            images, np.arange(len(images)) % CLASSES, CONFIG, None, None, ComputeOptions(device="cpu"), workers
        )
        bytes_before, bytes_a_layer = 0, []
        for _ in range(LAYERS):
            trainer.add_layer()
            bytes_a_layer.append(workers.exchanged - bytes_before)
            bytes_before = workers.exchanged
        if workers.is_rank0:
            records = trainer.history.records[1:]
            found = {
                "workers": workers.count,
                "seconds": median(record.total_seconds for record in records),
                "seconds_by_stage": {s: median(r.seconds[s] for r in records) for s in records[0].seconds},
                "exchanged": median(bytes_a_layer[1:]),
                "train_accuracies": [record.train_accuracy for record in trainer.history],
            }
            print(json.dumps(found))


def reckon(count: int) -> dict[str, Any]:
    """Return what a layer of ImageNet takes of each of so many GPUs."""
    config = make_config("tiny-imagenet")
    share = -(-IMAGENET // count)
    plan = plan_memory(config, SHAPE, IMAGENET_CLASSES, share, 0, 4, True, 80 * 10**9, torch.device("cuda"), "host")
    d, k = config.filters, config.filter_size
    m, positions = (SHAPE[0] + d) * k * k, (SHAPE[1] - k + 1) * (SHAPE[2] - k + 1)
    gram, heads = plan.width**2 * 4, 2 * plan.features * 2 * IMAGENET_CLASSES * 4
    exchanged = gram + heads + 8 * m * m + 8 * m * DRAWN
    (times,) = (
        run
        for run in json.loads(Path("results/layer-times-h200.json").read_text())
        if run["name"].split() == ["tiny-imagenet", "balanced"]
    )
    measured = int(times["dataset"].split(" training")[0].split()[-1])
    stages = times["seconds_by_stage"]
    more_classes = IMAGENET_CLASSES / TINY_CLASSES
    growing = (sum(stages.values()) - stages["heads"] + (more_classes - 1) * stages["update"]) * share / measured
    return {
        "workers": count,
        "images": share,
        "operations": {
            "patches": 2.0 * share * positions * m * m,
            "convolution": 2.0 * share * SHAPE[1] * SHAPE[2] * m * d,
            "gram": 1.0 * share * plan.width**2,
            "scores": 4.0 * share * plan.features * IMAGENET_CLASSES,
            "factorisation": plan.width**3 / 3,
        },
        "maps_bytes": plan.maps_bytes,
        "output_bytes": share * IMAGENET_CLASSES * 4,
        "gram_bytes": gram,
        "heads_bytes_a_layer": heads // 2,
        "exchanged": exchanged,
        "seconds_growing": growing,
        "seconds_heads": stages["heads"],
        "seconds_exchange": 2 * exchanged / BANDWIDTH[count],
        "bandwidth_assumed": BANDWIDTH[count],
    }


def main() -> None:
    """Measure one and two workers, reckon the rest, and write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/workers.json"))
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        write_images(file, IMAGES)
        for count in (1, 2):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
            command += [__file__, "--child", str(file)]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            runs.append(json.loads(done.stdout))
            print(
                f"{count} workers: {runs[-1]['seconds']:.2f} s a layer, {runs[-1]['exchanged'] / 1e6:.1f} MB exchanged"
            )
    result = {
        "name": "one worker and two",
        "dataset": f"random gratings, {IMAGES} of 16×16 grey",
        "config": CONFIG.to_dict(),
        "commit": commit(),
        "command": "python benchmarks/workers.py",
        "device": f"{os.cpu_count()} CPU cores ({platform.machine()}), one thread a worker",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "seed": CONFIG.seed,
        "runs": runs,
        "imagenet": [reckon(count) for count in (8, 64)],
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
