"""What a layer costs on this machine: seconds, operations and bytes by stage, against ceilings measured here."""

from .cases import Case, choose_cases, known_cases
from .costs import StageCost, layer_costs
from .layers import NothingMeasuredError, measure_case
from .peak_rates import measure_ceilings

__all__ = [
    "Case",
    "NothingMeasuredError",
    "StageCost",
    "choose_cases",
    "known_cases",
    "layer_costs",
    "measure_case",
    "measure_ceilings",
]
