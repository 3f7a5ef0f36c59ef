"""Ten times the images, the same peak memory: maps in a memory-mapped file, on the CPU.

    python benchmarks/memory_growth.py

Each number of images is trained in a process of its own, from an ``.npy`` file that is mapped into memory. Written to
``results/memory-growth.json`` are the peak of the process (its resident set: libraries, mapped files and all) and its
ratio.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from rescnet import ComputeOptions, NetworkConfig
from rescnet.experiments.provenance import commit
from rescnet.training.trainer import Trainer

CONFIG = NetworkConfig(
    layers=2,
    filters=20,
    first_filter_size=5,
    block_size=8,
    block_stride=2,
    pyramid=(4, 2, 1),
    ridge=0.3,
    stop_at_zero_error=False,
)
SHAPE, CLASSES = (1, 16, 16), 10


def write_images(file: Path, count: int) -> None:
    """Write random gratings, one direction a class, chunk by chunk."""
    images = np.lib.format.open_memmap(file, "w+", np.uint8, (count, *SHAPE))
    y, x = np.mgrid[: SHAPE[1], : SHAPE[2]]
    for start in range(0, count, 5000):
        rng = np.random.default_rng(start)
        labels = np.arange(start, min(start + 5000, count)) % CLASSES
        angle = labels[:, None, None] * np.pi / CLASSES
        wave = np.sin(np.cos(angle) * x + np.sin(angle) * y + rng.uniform(0, 6, (len(labels), 1, 1)))
        noisy = 128 + 40 * wave + rng.normal(0, 50, wave.shape)
        images[start : start + 5000, 0] = noisy.clip(0, 255).astype(np.uint8)
    images.flush()


def child(file: str, memory: str, scratch: str) -> None:
    """Train on the images of a file and print what was measured as JSON."""
    images = np.load(file, mmap_mode="r")
    compute = ComputeOptions(device="cpu", memory=memory, maps="file", scratch=scratch)
    trainer = Trainer(images, np.arange(len(images)) % CLASSES, CONFIG, None, None, compute)
    while not trainer.finished():
        trainer.add_layer()
    records = trainer.history.records
    print(
        json.dumps(
            {
                "images": len(images),
                "peak_memory": max(record.peak_memory for record in records),
                "plan": asdict(trainer.plan),
                "history": [asdict(record) for record in records],
            }
        )
    )


def main() -> None:
    """Measure each number of images and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", default="20000,200000")
    parser.add_argument("--memory", default="400MB")
    parser.add_argument("--out", type=Path, default=Path("results/memory-growth.json"))
    parser.add_argument("--child", nargs=2, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], arguments.memory, arguments.child[1])
        return
    runs = []
    for count in map(int, arguments.images.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "images.npy"
            write_images(file, count)
            command = [sys.executable, __file__, "--memory", arguments.memory, "--child", str(file), folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
        seconds = sum(sum(record["seconds"].values()) for record in runs[-1]["history"])
        print(
            f"{count:,} images: peak {runs[-1]['peak_memory'] / 1e6:.0f} MB, "
            f"maps of {runs[-1]['plan']['maps_bytes'] / 1e6:.0f} MB, {seconds:.0f} s",
            flush=True,
        )
    result = {
        "name": "peak memory against the number of images",
        "dataset": "random gratings, 16×16 grey",
        "config": CONFIG.to_dict(),
        "commit": commit(),
        "command": "python benchmarks/memory_growth.py",
        "device": f"{torch.get_num_threads()} CPU cores ({platform.machine()})",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "seed": CONFIG.seed,
        "peak_ratio": runs[-1]["peak_memory"] / runs[0]["peak_memory"],
        "runs": runs,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"ratio {result['peak_ratio']:.3f}")


if __name__ == "__main__":
    main()
