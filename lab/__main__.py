"""``rescnet`` with baselines that are trained by gradients: a small CNN and ResNet-18, with and without flips.

python -m lab compare my-photos/ --models rescnet,cnn-flips
python -m lab curve cifar10 --images-per-class 10,50,100,500 --models rescnet,resnet18
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rescnet.cli import main
from rescnet.compare.baselines import BASELINES, Predict

from .baselines import NETWORKS
from .baselines.training import DeviceImages, Recipe, predict, train_baseline

RECIPES: dict[str, dict[str, Any]] = {"cnn": {"adam": True, "learning_rate": 2e-3}, "resnet18": {}}


def fit_network(
    name: str, flips: bool, images: NDArray[Any], labels: NDArray[Any], device: torch.device, seed: int
) -> tuple[Predict, int]:
    """Train a network on images (n, channels, height, width) and classes (n,); return also its bytes."""
    training = DeviceImages(images, labels, device)
    recipe = Recipe.for_images(len(images), flips=flips, seed=seed, **RECIPES[name])
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        network, _ = train_baseline(NETWORKS[name], training, {}, int(labels.max()) + 1, recipe)

    def classes(new: NDArray[Any]) -> torch.Tensor:
        return predict(network, DeviceImages(new, np.zeros(len(new)), device, like=training))

    return classes, sum(tensor.nbytes for tensor in network.state_dict().values())


def add_networks() -> None:
    """Let ``rescnet compare`` and ``rescnet curve`` know the networks."""
    for name in RECIPES:
        BASELINES[name] = partial(fit_network, name, False)
        BASELINES[f"{name}-flips"] = partial(fit_network, name, True)


if __name__ == "__main__":
    add_networks()
    main()
