"""Table of a training run on the console: its plan, one line per layer with the time left, and a summary."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from time import perf_counter

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from torch import Tensor

from ..base.intervals import show_left_out
from ..base.progress import Bar
from ..base.text import count, show_bytes, show_percent, show_seconds, show_shape
from ..config.geometry import count_pairs
from ..config.network import GREY_FILTER_SIZE
from ..network.history import History, LayerRecord, StopReason
from ..network.network import Network
from .choice import Choice
from .listener import Listener
from .memory_plan import MemoryPlan
from .readout.iterative import TOLERANCE

PLACES = {"device": "in memory", "host": "on the host, streamed", "file": "in a file, streamed"}
RECENT = 10  # layers whose mean time predicts the time left
EARLY = 3  # layers: a run that stops at zero training error this early gets a hint


class TrainingTable(Listener):
    """Listener that prints a run to a console: the plan, one line per layer with the time left, and a summary.

    ``title`` is the name of the data set, ``images`` returns a line about their number once a network is chosen.
    """

    def __init__(self, console: Console, title: str, device: str, images: Callable[[], str] = str) -> None:
        self.console, self.title, self.device, self.images = console, title, device, images
        self._progress = Bar(console, TextColumn("  {task.description}"), BarColumn(), TimeElapsedColumn())
        self._seconds: list[float] = []
        self._headed = False
        self._first_step: tuple[float, float] | None = None  # of the readout: when, and its residual

    def __enter__(self) -> TrainingTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the progress bar, so that something else can be printed."""
        self._progress.stop()

    def _say(self, line: str, style: str = "") -> None:
        """Print a line that is neither coloured nor wrapped."""
        self.console.print(line, style=style, highlight=False, soft_wrap=True)

    def chosen(self, choice: Choice) -> None:
        """Print how the network was chosen."""
        for note in choice.notes:
            self._say(escape(note))

    def planned(self, network: Network, plan: MemoryPlan) -> None:
        """Print the plan of the run, or of the second one of a refit."""
        self._seconds, self._headed = [], False
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._config = config = network.config
        say = self.console.print
        size = show_shape(network.image_shape)
        say(f"[bold]{escape(self.title)}[/bold]: {network.classes} classes, images {size}, on {self.device}")
        if images := self.images():
            say(f"  {escape(images)}", highlight=False)
        first, rest = config.size_of_filter(1), config.size_of_filter(2)
        sizes = f"{first}×{first}" if first == rest else f"{first}×{first}, then {rest}×{rest}"
        if any(map(config.is_grey, range(2, config.layers + 1))):
            sizes += f"; {GREY_FILTER_SIZE}×{GREY_FILTER_SIZE} in grey stacks"
        layers = count(config.layers, "layer", "layers")
        say(f"  up to {layers} of {config.filters} {config.bank} filters, {sizes}")
        cells = sum(len(cells) for _, cells in config.grids(network.image_shape[1:]))
        pairs = f"{count_pairs(config.pooled_maps, config.keeps_diagonal):,} channel pairs"
        say(f"  {plan.features:,} features per layer: {pairs} in {cells} pyramid cells")
        where = "on the GPU" if plan.maps_place == "device" and "cuda" in self.device else PLACES[plan.maps_place]
        kept = f"{show_bytes(plan.features_bytes)} features" if plan.keep_features else "features computed twice"
        at_a_time = f"{count(plan.chunk, 'image', 'images')} at a time"
        say(f"  memory about {show_bytes(plan.total_bytes)} of {show_bytes(plan.budget)}, {at_a_time}:")
        say(f"    {show_bytes(plan.maps_bytes)} maps {where};")
        say(f"    {show_bytes(plan.gram_bytes)} sums and heads, {kept}, {show_bytes(plan.workspace_bytes)} workspace")
        if config.has_kernel:
            sketches = f", sketches {show_bytes(plan.sketches.bytes)}" if plan.sketches.bytes else ""
            say(f"  then a kernel readout: file {show_bytes(plan.readout_bytes)}{sketches}")
        say("")
        self._progress.start()
        self._task = self._progress.add_task("layer 1", total=config.layers)

    def layer_added(self, record: LayerRecord) -> None:
        """Print the line of a layer."""
        layers = self._config.layers
        left = layers - record.layer
        alike = self._config.stack_depth == 1 and "cuda" not in self.device
        if record.layer > 1 or alike:  # otherwise the first has less input, or includes the warm-up of a GPU
            self._seconds.append(record.total_seconds)
        recent = self._seconds[-RECENT:]
        shown_left = "–" if not left else show_seconds(left * sum(recent) / len(recent)) if recent else ""
        columns = {"layer": f"{record.layer:>6}", "training %": f"{100 * record.train_accuracy:.2f}"}
        if record.validation_accuracy is not None:
            columns["validation %"] = show_percent(record.validation_accuracy)
        if self._config.head != "ridge":  # a regression does not tell the signs of the residual apart
            columns["positive %"] = f"{100 * record.positive_share:.1f}"
        columns |= {"seconds": f"{record.total_seconds:>7.2f}", "time left": f"{shown_left:>9}"}
        if not self._headed:
            self._say("  ".join(name.rjust(len(shown)) for name, shown in columns.items()), "bold")
            self._headed = True
        self._say("  ".join(shown.rjust(len(name)) for name, shown in columns.items()))
        description = f"layer {min(record.layer + 1, layers)} of {layers}"
        if self._config.has_kernel and not left:
            self._say("        fitting the kernel readout", "dim")
            description = "kernel readout"
        self._progress.update(self._task, completed=record.layer, description=description)

    def readout_step(self, steps: int, residual: float, solution: Tensor) -> None:
        """Show the residual of the readout, and the time left if it keeps falling at this rate."""
        now = perf_counter()
        self._first_step = self._first_step or (now, residual)
        since, first = self._first_step
        left = ""
        if TOLERANCE < residual < first:
            rest = log(residual / TOLERANCE) / log(first / residual) * (now - since)
            left = f", about {show_seconds(rest)} left"
        self._progress.update(self._task, description=f"kernel readout, step {steps}: residual {residual:.1e}{left}")

    def finished(self, history: History) -> None:
        """Print the summary."""
        self.close()
        best, last = history[history.best_layer() - 1], history[-1]
        layers = count(len(history), "layer", "layers")
        total = show_seconds(sum(record.total_seconds for record in history))
        alone = ", without the readout" if history.readout else ""
        why = StopReason.early(history.stopped)
        self._say(f"\n{layers} in {total}{alone}{f'; stopped because {why}' if why else ''}.")
        early = self._config.stop_at_zero_error and len(history) <= min(EARLY, self._config.layers - 1)
        if early and last.train_accuracy == 1:
            self._say(
                "more layers may still improve the accuracy on new images: try patience 5 and no stop_at_zero_error"
            )
        for name, at_best, at_last, how in (
            ("validation", best.validation_accuracy, last.validation_accuracy, "the best"),
            ("test", best.test_accuracy, last.test_accuracy, "the best validation depth"),
        ):
            if at_last is None:
                continue
            line = f"{name} accuracy{alone}: [bold]{show_percent(at_last)} %[/bold] at layer {last.layer}, the last"
            if last.validation_accuracy is not None and best.layer == last.layer:
                line += f" and {how}"
            elif last.validation_accuracy is not None and at_best == at_last:
                line += f", and already at layer {best.layer}, {how}"
            elif last.validation_accuracy is not None:
                line += f"; [bold]{show_percent(at_best)} %[/bold] at layer {best.layer}, {how}"
            self._say(line)
        if history.readout:
            if history.left_out:
                self._say(show_left_out(*history.left_out))
            shares = {name: getattr(history.readout, f"{name}_accuracy") for name in ("validation", "test")}
            known = {name: show_percent(share) for name, share in shares.items() if share is not None}
            if not known and not history.left_out:
                self._say("the accuracy on new images is not known: evaluate the model on other images")
            found = [f"{name} accuracy [bold]{percent} %[/bold]" for name, percent in known.items()]
            read = history.readout.layers
            first = "layer" if read == 1 else f"{read} layers"
            of_fewer = f" of the first {first}" if read not in (None, len(history)) else ""
            found.append(f"fitted in {show_seconds(history.readout.seconds)}")
            self._say(f"with the kernel readout{of_fewer}: {', '.join(found)}")
