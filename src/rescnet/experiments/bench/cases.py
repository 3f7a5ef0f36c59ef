"""What is timed: a preset at the size of its data set, or smaller, on random images that look like real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from ...config.network import NetworkConfig
from ...config.presets import make_config, preset_names

ON_GPU = ("cifar10", "cifar10-adaptive", "cifar100", "mnist", "tiny-imagenet")
ON_CPU = ("digits", "cifar10")
CPU_IMAGES, CPU_FILTERS = 300, 16  # ends within a minute on a laptop; the digits are small as they are
CHUNK = 10_000  # images made at a time


@dataclass(frozen=True)
class Case:
    """A network to be timed.

    Attributes
    ----------
    name : str
    preset : str
    shape : (channels, height, width)
    train, test : int
        Images.
    classes : int
    changes : dict
        What differs from the preset.
    """

    name: str
    preset: str
    shape: tuple[int, int, int]
    train: int
    test: int
    classes: int
    changes: dict[str, Any] = field(default_factory=dict)

    def config(self) -> NetworkConfig:
        """Return the network's configuration; it grows even where no training image is wrong."""
        return make_config(self.preset, **({"stop_at_zero_error": False} | self.changes))

    def describe(self) -> str:
        """Return the preset with all that differs from it."""
        return " ".join([self.preset, *(f"{key}={value}" for key, value in self.changes.items())])

    def images(self, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return random images, uint8 (train + test, channels, height, width), and labels, each class equally often."""
        total = self.train + self.test
        images = smooth_noise(total, self.shape, device, seed)
        return images, torch.arange(total, device=device) % self.classes


def known_cases() -> dict[str, Case]:
    """Return all cases by name: the presets of public sets at their full size, and CIFAR-10 with all 21 cells."""
    from ...data.archives import PUBLIC_SETS

    cases = {}
    for name in preset_names():
        if name in PUBLIC_SETS:
            public = PUBLIC_SETS[name]
            test = public.n_test or public.n_train // 5
            train = public.n_train if public.n_test else public.n_train - test
            cases[name] = Case(name, name, public.shape, train, test, public.classes)
    cases["cifar10-adaptive"] = replace(cases["cifar10"], name="cifar10-adaptive", changes={"cells": "adaptive"})
    return cases


def choose_cases(
    names: Sequence[str], device: torch.device, images: int | None = None, filters: int | None = None
) -> list[Case]:
    """Return the cases asked for, or those that suit the device, at a size that suits it too.

    Parameters
    ----------
    names : sequence of str
        None: five at full size on a GPU, two small ones on a CPU.
    images : int, optional
        Training images; a fifth as many are test images.
    filters : int, optional
        In every layer.
    """
    known, small = known_cases(), device.type == "cpu"
    chosen = []
    for name in names or (ON_CPU if small else ON_GPU):
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(sorted(known))}."
            raise ValueError(f"there is no benchmark of {name!r}: {hint}")
        case = known[name]
        count = images or (min(case.train, CPU_IMAGES) if small and name != "digits" else None)
        if count:
            case = replace(case, train=count, test=max(1, count // 5))
        width = filters or (CPU_FILTERS if small and name != "digits" else None)
        if width:
            case = replace(case, changes={**case.changes, "filters": width})
        chosen.append(case)
    return chosen


def smooth_noise(count: int, shape: tuple[int, int, int], device: torch.device, seed: int = 0) -> Tensor:
    """Return random images whose neighbouring pixels are as alike as those of real ones, uint8 (count, c, h, w)."""
    c, h, w = shape
    generator = torch.Generator(device).manual_seed(seed)
    images = torch.empty(count, c, h, w, dtype=torch.uint8, device=device)
    for start in range(0, count, CHUNK):
        part = images[start : start + CHUNK]
        coarse = torch.rand(len(part), c, max(2, h // 4), max(2, w // 4), device=device, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bilinear").mul_(200)
        part.copy_(smooth.add_(torch.rand(smooth.shape, device=device, generator=generator), alpha=55))
    return images
