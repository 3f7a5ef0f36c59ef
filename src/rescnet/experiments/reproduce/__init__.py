"""The paper's tables and figure, run again: what each is made of, how it is run, what came out beside the paper's."""

from .plans import Experiment, PaperFigure, Plan, load_plan, plan_names
from .records import Results, summarise
from .running import ExperimentRun, RunOptions

__all__ = [
    "Experiment",
    "ExperimentRun",
    "PaperFigure",
    "Plan",
    "Results",
    "RunOptions",
    "load_plan",
    "plan_names",
    "summarise",
]
