"""Several readouts of the same layers: the layers are learned once. One line of ``bench.jsonl``.

    python -m lab.readouts fashion-mnist-best --held-out 10000 --readout kernel_ridge=0.03 \
        --readout "kernel_ridge=0.03; kernel_width=0.6"

The preset's own readout is fitted first. Validation images, split off the training images, decide.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

from rescnet import ComputeOptions, Config, NetworkConfig
from rescnet.config.option import options_of
from rescnet.data import load
from rescnet.data.archives import PUBLIC_SETS
from rescnet.network.device import choose_device
from rescnet.training.data import TrainingData
from rescnet.training.readout.fit import fit_readout
from rescnet.training.trainer import Trainer
from rescnet.training.workers import Workers

from .provenance import origin, shown_command
from .records import keep_bench
from .runner import split_images

DECLARED = options_of(NetworkConfig)
CHANGED = [
    name
    for name, entry in DECLARED.items()
    if entry.metadata["group"] == DECLARED["readout"].metadata["group"] and name != "readout"
]


def changes_of(words: str) -> dict[str, Any]:
    """Return the options in ``kernel_ridge=0.03; kernel_copies=1 shift 2``."""
    pairs = (word.partition("=")[::2] for word in words.split(";") if word.strip())
    return {name.strip(): _value(text.strip()) for name, text in pairs}


def configs_of(config: NetworkConfig, readouts: list[str]) -> dict[str, NetworkConfig]:
    """Return the network's configuration and that of each readout; the layers do not depend on what they change."""
    if config.readout != "kernel":
        raise ValueError(f"readout must be kernel, got {config.readout}. Use a preset ending in -best.")
    found = {"preset": config}
    for words in readouts:
        changes = changes_of(words)
        if wrong := [name for name in changes if name not in CHANGED]:
            raise ValueError(f"--readout must change {', '.join(CHANGED)}, got {wrong[0]}. Use --changes for layers.")
        found[words] = replace(config, **changes)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    """Learn the layers, fit each readout, and append the accuracies to the record."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("preset")
    made.add_argument("--changes", default="", help="of the layers, e.g. layers=24; augment=flip")
    made.add_argument("--readout", action="append", default=[], help="changes of the readout; may be repeated")
    made.add_argument("--held-out", type=int, default=5000, help="validation images")
    made.add_argument("--limit", type=int, default=None, help="training images, and test images, for a trial")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--max-memory", default="auto", help="memory limit, e.g. 40GB")
    made.add_argument("--out", default="", help="file for the entry, instead of the record")
    arguments = made.parse_args()
    config = Config(arguments.preset, seed=arguments.seed, **changes_of(arguments.changes)).complete()
    configs = configs_of(config, arguments.readout)
    dataset = max((name for name in PUBLIC_SETS if arguments.preset.startswith(name)), key=len)
    splits = split_images(load(dataset), arguments.held_out, arguments.limit, arguments.seed)
    pairs = {name: (images.images, images.labels) for name, images in splits.items()}
    data = TrainingData.of(*pairs.pop("train"), **pairs)
    compute, began = ComputeOptions(max_memory=arguments.max_memory), time.perf_counter()
    trainer = Trainer(config, data, compute, Workers())
    for _ in range(config.layers):
        trainer.add_layer()
    network, collected = trainer.network, trainer.collected()
    del trainer  # the readout needs the memory of maps and sums
    layers_took, runs = time.perf_counter() - began, []
    for words, changed in configs.items():
        network.stack.config = changed
        record = fit_readout(network, data, collected)
        names = "loo_accuracy", "validation_accuracy", "test_accuracy", "ridge", "seconds"
        runs.append({"readout": words} | {name: getattr(record, name) for name in names})
        print(" ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in runs[-1].values()))
    facts = origin(choose_device("auto"), shown_command("lab.readouts"))
    entry = {"file": "readouts", "name": arguments.preset, "question": "readout", "dataset": dataset, **facts}
    entry |= {"seed": arguments.seed, "images": {name: len(images) for name, images in splits.items()}}
    entry |= {"changes": changes_of(arguments.changes), "config": config.to_dict()}
    entry |= {"layer_seconds": round(layers_took, 1), "runs": runs}
    keep_bench(entry, arguments.out)


if __name__ == "__main__":
    main()
