"""The CIFAR-10 preset on a card of 16 GB: maps on the host, streamed; against the same card without the cap.

    python benchmarks/capped_memory.py --out results/capped-memory-h200.json

On a GPU the second run's process may allocate no more than the cap (``torch.cuda.set_per_process_memory_fraction``); an
attempt to take more ends it. Both runs train the same few layers; written are the seconds and the peak memory of each
layer, and whether the networks are equal, bit for bit. CIFAR-10 is read where it is at hand; else noise with a trace of
the class in it stands in. ``--share`` and ``--filters`` make a trial on a CPU possible, where nothing is capped.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch

from rescnet import ComputeOptions, Network, NetworkConfig, make_config
from rescnet.data import load
from rescnet.experiments.bench.cases import smooth_noise
from rescnet.experiments.provenance import commit, shown_command
from rescnet.formatting import parse_bytes
from rescnet.training.trainer import Trainer

Pair = tuple[torch.Tensor, torch.Tensor]


def load_images(share: float) -> tuple[str, Pair, Pair]:
    """Return the name of the images, training images and labels, test images and labels, on the CPU."""
    try:
        data = load("cifar10", download=False)
        assert data.test is not None
        pairs = [(torch.tensor(s.images), torch.tensor(s.labels)) for s in (data.train, data.test)]
        name = "cifar10"
    except Exception as error:  # whatever is wrong with the files: the noise will do for memory and time
        print(f"no CIFAR-10 ({error}): smooth noise instead", flush=True)
        torch.manual_seed(0)
        labels = torch.arange(60_000) % 10
        images = smooth_noise(60_000, (3, 32, 32), torch.device("cpu")).float()
        images += 4 * labels[:, None, None, None]
        images = images.clamp(0, 255).byte()
        pairs = [(images[:50_000], labels[:50_000]), (images[50_000:], labels[50_000:])]
        name = "smooth noise with a trace of the class, 32×32×3"
    (x, y), (x_test, y_test) = pairs
    n, m = int(share * len(x)), int(share * len(x_test))
    return f"{name}, {n} training and {m} test images", (x[:n], y[:n]), (x_test[:m], y_test[:m])


def one_run(
    config: NetworkConfig, layers: int, train: Pair, test: Pair, compute: ComputeOptions
) -> tuple[dict[str, Any], Network]:
    """Train a few layers of a network planned for all, and return what was measured and the layers on the CPU."""
    trainer = Trainer(*train, config, None, test, compute)
    plan = trainer.plan
    print(f"maps on the {plan.maps_place}, chunks of {plan.chunk}, features kept: {plan.keep_features}", flush=True)
    for _ in range(layers):
        record = trainer.add_layer()
        print(
            f"layer {record.layer}: {record.total_seconds:.3f} s, peak {record.peak_memory / 1e9:.2f} GB, "
            f"training {100 * record.train_accuracy:.2f} %, test {100 * (record.test_accuracy or 0):.2f} %",
            flush=True,
        )
    measured = {
        "compute": asdict(compute),
        "plan": asdict(plan),
        "seconds_per_layer": median(r.total_seconds for r in trainer.history.records[1:] or trainer.history.records),
        "peak_memory": max(r.peak_memory for r in trainer.history),
        "reserved_memory": torch.cuda.memory_reserved() if trainer.device.type == "cuda" else None,
        "history": [asdict(record) for record in trainer.history],
    }
    network = trainer.network
    network.layers = [layer.to(torch.device("cpu"), torch.float32) for layer in network.layers]
    return measured, network


def main() -> None:
    """Run with and without the cap and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--memory", default="16GB")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--share", type=float, default=1.0, help="share of the images, for a trial")
    parser.add_argument("--filters", type=int, default=None, help="fewer filters, for a trial")
    parser.add_argument("--maps", default="auto", help="where maps live in the second run; auto: the plan says")
    arguments = parser.parse_args()
    cuda = torch.cuda.is_available()
    name, train, test = load_images(arguments.share)
    changes = {"filters": arguments.filters} if arguments.filters else {}
    config = make_config("cifar10", stop_at_zero_error=False, **changes)
    free, free_network = one_run(config, arguments.layers, train, test, ComputeOptions())
    gc.collect()
    cap = parse_bytes(arguments.memory)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, cap / torch.cuda.get_device_properties(0).total_memory))
    compute = ComputeOptions(memory=arguments.memory, maps=arguments.maps)
    capped, capped_network = one_run(config, arguments.layers, train, test, compute)
    pairs = list(zip(free_network.layers, capped_network.layers, strict=True))
    result = {
        "name": f"cifar10 preset within {arguments.memory}",
        "dataset": name,
        "config": config.to_dict(),
        "commit": commit(),
        "command": shown_command("python", "benchmarks/capped_memory.py"),
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "seed": config.seed,
        "cap": cap if cuda else None,
        "free": free,
        "capped": capped,
        "equal_accuracies": [
            (a["train_accuracy"], a["test_accuracy"]) == (b["train_accuracy"], b["test_accuracy"])
            for a, b in zip(free["history"], capped["history"], strict=True)
        ],
        "equal_networks": all(
            torch.equal(a.weights, b.weights) and torch.equal(a.head.weights, b.head.weights) for a, b in pairs
        ),
        "greatest_difference": max(float((a.head.weights - b.head.weights).abs().max()) for a, b in pairs),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{free['seconds_per_layer']:.3f} s a layer with {free['peak_memory'] / 1e9:.1f} GB, "
        f"{capped['seconds_per_layer']:.3f} s with {capped['peak_memory'] / 1e9:.1f} GB; "
        f"equal accuracies: {all(result['equal_accuracies'])}, equal networks: {result['equal_networks']}"
    )


if __name__ == "__main__":
    main()
