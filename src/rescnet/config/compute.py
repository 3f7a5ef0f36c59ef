"""How a network is computed (:class:`ComputeOptions`); what is learnt stands in ``config.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..stages.mixed_precision import GramProducts
from .option import checked, option


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """How a network is computed; the same network is learnt, to rounding, whatever is chosen here."""

    device: str = option("auto", "cpu, cuda, cuda:1, …; auto: a GPU if there is one")
    dtype: Literal["float32", "float64"] = option("float32", "floating type of maps, features and sums")
    precision: Literal["auto", "exact", "balanced", "fast"] = option(
        "auto",
        "exact: all in dtype; balanced: maps, features and what factorises them in float16, sums and solutions in "
        "float32; fast: solutions to three digits; auto: exact on a CPU, balanced on a GPU",
    )
    gram: GramProducts = option(
        "auto", "what features are multiplied in, summed in float32; auto: half where they are, else dtype"
    )
    memory: str = option("auto", "bytes training may use, as 500MB or 16GB; auto: 60 % of the device's memory")
    maps: Literal["auto", "device", "host", "file"] = option(
        "auto", "where the maps of all images live between layers; auto: on the device if memory allows"
    )
    scratch: str = option("", "folder of the file maps live in; none: the system's for temporary files")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, checked(name, value, ComputeOptions))
        if self.memory != "auto":
            from ..formatting import parse_bytes

            parse_bytes(self.memory)
