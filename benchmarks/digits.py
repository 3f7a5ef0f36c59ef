"""The default, measured: the digits inside scikit-learn, a held-out fifth, the mean of five splits.

    python benchmarks/digits.py

Writes ``results/digits.json``; ``python benchmarks/results_table.py`` carries it into the README.
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from rescnet import make_config, train
from rescnet.experiments.provenance import commit


def main() -> None:
    """Train on five splits and write what came out."""
    digits = load_digits()
    config = make_config("digits")
    splits = []
    for seed in range(5):
        x, x_test, y, y_test = train_test_split(
            digits.images[:, None].astype(np.float32), digits.target, test_size=0.2, random_state=seed
        )
        start = time.perf_counter()
        _, history = train(x, y, config, test=(x_test, y_test))
        seconds = time.perf_counter() - start
        splits.append({"split_seed": seed, "seconds": seconds, "history": [asdict(record) for record in history]})
        print(f"split {seed}: {100 * history[-1].test_accuracy:.2f} % in {seconds:.1f} s")
    accuracy = [split["history"][-1]["test_accuracy"] for split in splits]
    result = {
        "name": "digits",
        "dataset": "digits",
        "protocol": "a fifth held out at random, five splits; accuracy at the last layer",
        "command": "python benchmarks/digits.py",
        "commit": commit(),
        "device": f"{torch.get_num_threads()} CPU cores ({platform.machine()})",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "seed": config.seed,
        "config": config.to_dict(),
        "layers": config.layers,
        "test_accuracy_mean": float(np.mean(accuracy)),
        "test_accuracy_std": float(np.std(accuracy)),
        "seconds_mean": float(np.mean([split["seconds"] for split in splits])),
        "splits": splits,
    }
    Path("results/digits.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"mean {100 * np.mean(accuracy):.2f} % ± {100 * np.std(accuracy):.2f}")


if __name__ == "__main__":
    main()
