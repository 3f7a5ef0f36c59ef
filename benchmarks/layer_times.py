"""Seconds of one whole layer, by stage, at each preset's size: random pixels, steady state (the last of four layers).

python benchmarks/layer_times.py --out results/layer-times.json
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import torch
from explore import commit

from rescnet import ComputeOptions, make_config
from rescnet.training.trainer import Trainer

CASES = [  # preset, image shape, training images, test images, classes, changes
    ("cifar10", (3, 32, 32), 50_000, 10_000, 10, {}),
    ("cifar10", (3, 32, 32), 50_000, 10_000, 10, {"cells": "adaptive"}),
    ("cifar100", (3, 32, 32), 50_000, 10_000, 100, {}),
    ("mnist", (1, 28, 28), 60_000, 10_000, 10, {}),
    ("tiny-imagenet", (3, 64, 64), 100_000, 10_000, 200, {}),
]


def smooth_noise(count: int, shape: tuple[int, int, int], device: str) -> torch.Tensor:
    """Return random images with the correlation of neighbours that real ones have, uint8 (count, c, h, w)."""
    c, h, w = shape
    coarse = torch.rand(count, c, h // 4, w // 4, device=device)
    images = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bilinear").mul_(200)
    return images.add_(torch.rand_like(images), alpha=55).byte()


def main() -> None:
    """Time every case and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="share of the images, for a trial")
    parser.add_argument("--precisions", default="balanced,fast")
    parser.add_argument("--commit", default=None)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    results = []
    for preset, shape, train, test, classes, changes in CASES:
        for precision in arguments.precisions.split(","):
            torch.manual_seed(0)
            n, m = int(arguments.share * train), int(arguments.share * test)
            images, labels = smooth_noise(n + m, shape, device), torch.arange(n + m, device=device) % classes
            config = make_config(preset, stop_at_zero_error=False, **changes)
            compute = ComputeOptions(precision=precision)
            trainer = Trainer(images[:n], labels[:n], config, None, (images[n:], labels[n:]), compute)
            records = [trainer.add_layer() for _ in range(4)]
            last = records[-1]
            results.append(
                {
                    "name": f"{preset} {changes or ''} {precision}",
                    "dataset": f"smooth noise, {n} training and {m} test images of {shape}",
                    "config": config.to_dict(),
                    "precision": precision,
                    "commit": arguments.commit or commit(),
                    "command": f"python benchmarks/layer_times.py --out {arguments.out.name}",
                    "device": name,
                    "versions": {"python": platform.python_version(), "torch": torch.__version__},
                    "seed": 0,
                    "features": trainer.plan.features,
                    "seconds": last.total_seconds,
                    "seconds_by_stage": last.seconds,
                    "peak_memory": last.peak_memory,
                }
            )
            stages = " ".join(f"{stage} {seconds:.3f}" for stage, seconds in last.seconds.items())
            print(
                f"{preset:14s} {changes or ''!s:22s} {precision:9s} D={trainer.plan.features} "
                f"{last.total_seconds:.3f} s: {stages}  {last.peak_memory / 1e9:.1f} GB",
                flush=True,
            )
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
            del trainer, images, labels
            if device == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
