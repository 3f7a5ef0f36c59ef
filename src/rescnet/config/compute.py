"""Options of the machine: they change how a network is computed, not which one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..base.text import parse_bytes
from .option import Options, group

Place = Literal["device", "host", "file"]

_machine = group("Machine", fixed_by="run")
_placement = group("Machine", fixed_by="nothing")


@dataclass(frozen=True, kw_only=True)
class ComputeOptions(Options):
    """Options of the machine; all of them learn the same network, up to rounding."""

    device: str = _placement("auto", "cpu, cuda, cuda:1, ...; auto uses a GPU if there is one.", common=True)
    dtype: Literal["float32", "float64"] = _machine("float32", "Floating type of maps, features and sums.")
    precision: Literal["auto", "exact", "balanced", "fast"] = _machine(
        "auto",
        "exact computes in dtype. balanced keeps maps, features and factors in float16. fast solves to three digits. "
        "auto is exact on a CPU and balanced on a GPU.",
    )
    max_memory: str = _placement(
        "auto",
        "Memory for training, e.g. 500MB or 16GB; auto is 80 % of a GPU's memory, or 60 % of the host's.",
        common=True,
    )
    maps: Literal["auto", "device", "host", "file"] = _placement(
        "auto", "Place of all images' maps between layers: device, host or file; auto is the device if they fit."
    )
    scratch: str = _placement("", "Folder of the file of maps; empty means the system's temporary folder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_memory != "auto":
            parse_bytes(self.max_memory)
