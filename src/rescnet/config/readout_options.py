"""Options beyond the paper: what reads the class off all layers' features in the end. Off by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from .option import option

Readout = Literal["heads", "kernel"]


@dataclass(frozen=True, kw_only=True)
class ReadoutOptions:
    """Options of the last step, which the paper does not have; the default is the paper."""

    readout: Readout = option(
        "heads",
        "the layers' heads alone; or kernel: what they leave is regressed on all layers' features, by a Gaussian "
        "kernel over the training images, which the model then keeps: the first prediction computes their features, "
        "and where these fit in memory those that follow need not",
    )
    kernel_width: float = option(
        0.8, "kernel readout: w of exp(-w·d²), in units where the median d² of training images is 1", 1e-6
    )
    kernel_ridge: float = option(0.01, "kernel readout: added to the kernel's diagonal, which is 1", 0)
    kernel_copies: str = option(
        "", "kernel readout: changes of a copy of each training image that it learns from too, as 'shift 1 + rotate 10'"
    )
    second_look: bool = option(
        False,
        "kernel readout: correct outputs by a regression of what the training images' leave-one-out outputs miss",
    )

    @property
    def has_kernel_copies(self) -> bool:
        """Whether the readout learns from copies too."""
        return bool(self.kernel_copies.strip())


def check_readout_asked(readout: Readout, asked: Mapping[str, Any]) -> None:
    """Refuse options of a kernel readout that someone asked for, where there is none for them to change.

    What a preset has is not asked for: with readout heads it is left aside. A file that chooses the kernel itself, and
    is overruled, may keep its options too.
    """
    if readout == "kernel" or asked.get("readout") == "kernel":
        return
    for name, default in readout_defaults().items():
        if name != "readout" and asked.get(name, default) != default:
            raise ValueError(f"{name} is {asked[name]} but there is no kernel readout: choose readout kernel too.")


def readout_defaults() -> dict[str, Any]:
    """Return the options of the readout with their defaults: they may change once all layers are there."""
    return {entry.name: entry.default for entry in fields(ReadoutOptions)}
