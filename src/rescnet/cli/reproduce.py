"""``rescnet reproduce``: run a table or figure of the paper, and show ours beside the paper's."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..formatting import count, show_seconds
from .shared import say

if TYPE_CHECKING:
    from ..experiments.plans import Experiment, Plan
    from ..experiments.records import Results
    from ..experiments.runner import RunOptions
    from ..network.history import LayerRecord

LAYERS_BETWEEN_LINES = 10
SPLITS = {"train": "training", "validation": "held out", "test": "test"}


def reproduce(
    name: Annotated[str, typer.Argument(help="table2, figure2, table3, table4; or beyond: our best networks.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Run this experiment only, e.g. cifar10. May be repeated.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Maximum number of layers, instead of the paper's.", min=1)] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Start no layer after this time. The same command resumes.", min=0)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Trial with about n training and n test images, in its own file.", min=1)
    ] = None,
    held_out: Annotated[int, typer.Option(help="Training images that choose the depth. 0 disables it.", min=0)] = 5000,
    config: Annotated[Path | None, typer.Option(help="TOML file of options that override the presets'.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: the preset's.")] = None,
    precision: Annotated[str, typer.Option(help="exact, balanced, fast or auto.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, … or auto: a GPU if there is one.")] = "auto",
    memory: Annotated[str, typer.Option(help="Memory limit of training, e.g. 16GB.")] = "auto",
    root: Annotated[Path | None, typer.Option(help="Folder of the public sets.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing data sets.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of NAME.json, NAME.md and the figures.")] = Path("results"),
    state: Annotated[Path, typer.Option(help="Folder of unfinished layers, to resume from.")] = Path("runs/reproduce"),
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Keep no layers: an interrupted run starts again.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run finished experiments again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and the expected time only.")] = False,
) -> None:
    """Run the experiments of a table or figure of the paper, and write the results beside what it reports.

    Test accuracy is shown at the depth chosen on held-out training images, at the last layer, and at the best layer of
    the test curve, which is the paper's rule. Settings are the presets'.
    """
    from ..config.compute import ComputeOptions
    from ..data import default_root
    from ..experiments.plans import load_plan
    from ..experiments.presentation import NO_PLOTS, can_draw
    from ..experiments.records import Results
    from ..experiments.runner import RunOptions
    from ..network.device import choose_device

    plan = load_plan(name)
    experiments = plan.only(only or [])
    for option, folder in (("--out", out), ("--state", state)):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} must be a folder, got the file {folder}. Name another one.")
    compute = ComputeOptions(device=device, precision=precision, memory=memory)  # type: ignore[arg-type]
    choose_device(device)
    deadline = None if seconds is None else time.monotonic() + seconds
    options = RunOptions(held_out, limit, None if no_save else state, deadline, compute)
    overrides = {key: value for key, value in (("layers", layers), ("seed", seed)) if value is not None}
    console, results = Console(), Results(out / f"{_stem(name, limit)}.json")
    configs = {experiment.name: experiment.config(config, **overrides) for experiment in experiments}
    present = {experiment.name: download or _is_here(experiment.dataset, root) for experiment in experiments}
    if dry_run:
        _print_plan(console, plan, experiments, configs, present, options, out)
        return
    if not any(present.values()):
        raise ValueError(
            f"none of the data sets of {name} is complete in {root or default_root()}: name their folder with --root, "
            "or use --download."
        )
    with _terminate_as_interrupt():
        for experiment in experiments:
            if not present[experiment.name]:
                say(console, f"{experiment.name}: {experiment.dataset} is not here, skipped (--download fetches it)")
                continue
            try:
                _run(console, experiment, configs[experiment.name], results, options, root, again)
            finally:
                _write_table(plan, results)
    _print_table(console, plan, results)
    if not can_draw():
        say(console, escape(NO_PLOTS))


def _run(
    console: Console,
    experiment: Experiment,
    config: Any,
    results: Results,
    options: RunOptions,
    root: Path | None,
    again: bool,
) -> None:
    from ..experiments.costs import free_memory
    from ..experiments.plans import plan_names
    from ..experiments.runner import ExperimentRun, experiment_key
    from .images import check_limit, load_source

    key = experiment_key(experiment, config, options)
    siblings = [_stem(table, options.limit) for table in plan_names()]
    done = results.finished(key, config.layers, experiment.name, siblings)
    if done and not again:
        own = {"name": experiment.name, "label": experiment.label, "changes": experiment.changes}
        results.put(done | own | {"paper": [vars(figure) for figure in experiment.paper]})
        layers = count(done["layers"], "layer", "layers")
        say(console, f"[bold]{experiment.name}[/bold]: finished before, {layers} (--again repeats it)")
        return
    if options.time_is_up:
        say(console, f"{experiment.name}: not started, the time limit was reached")
        return
    dataset = load_source(experiment.dataset, root)
    check_limit(dataset, options.limit)
    run = ExperimentRun(experiment, config, dataset, results, options, _layer_printer(console, config.layers))
    if again:
        run.forget()
    images = ", ".join(f"{number:,} {SPLITS[split]}" for split, number in run.images.items())
    depth = f"up to {count(config.layers, 'layer', 'layers')}"
    say(console, f"[bold]{experiment.name}[/bold]: {escape(experiment.label)}, {depth}; images: {images}")
    if left := min(run.left_before(), config.layers):
        say(console, f"  resuming after layer {left}; its maps are computed first")
    try:
        entry = run.go()
    except KeyboardInterrupt:
        kept = "nothing is kept" if options.state is None else "the same command resumes"
        say(console, f"  interrupted after {count(run.layers, 'layer', 'layers')}: {kept}")
        raise
    if entry is None:
        say(console, "  no layer was learned: the time limit was reached")
        return
    took = f"{count(entry['layers'], 'layer', 'layers')} in {entry['seconds']:.0f} s"
    say(console, f"  {took}; stopped because {entry['stopped']}")
    if readout := entry["readout"]:
        held, test = (_percent(readout[f"{split}_accuracy"]) for split in ("validation", "test"))
        say(console, f"  with the kernel readout  held out {held}  test {test}  {readout['seconds']:.2f} s")
    del run, dataset
    free_memory()


def _stem(table: str, limit: int | None) -> str:
    """Return the name of a table's file; a trial with few images has its own."""
    return table if limit is None else f"{table}-of-{limit}-images"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def _layer_printer(console: Console, layers: int) -> Any:
    def show(record: LayerRecord) -> None:
        if record.layer % LAYERS_BETWEEN_LINES in (0, 1) or record.layer == layers:
            train, held = _percent(record.train_accuracy), _percent(record.validation_accuracy)
            accuracies = f"training {train}  held out {held}  test {_percent(record.test_accuracy)}"
            say(console, f"  layer {record.layer:4d}  {accuracies}  {record.total_seconds:.2f} s")

    return show


def _print_plan(
    console: Console,
    plan: Plan,
    experiments: tuple[Experiment, ...],
    configs: dict[str, Any],
    present: dict[str, bool],
    options: RunOptions,
    out: Path,
) -> None:
    from ..data.archives import PUBLIC_SETS
    from ..experiments.costs import seconds_per_layer
    from ..experiments.records import device_name
    from ..network.device import choose_device, choose_precision

    chosen = choose_device(options.compute.device)
    device, precision = device_name(chosen), choose_precision(options.compute, chosen)
    say(console, f"[bold]{escape(plan.title)}[/bold], on {device}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("experiment", "data", "layers", "varied", "paper", "expected time"):
        table.add_column(title, overflow="fold")  # names are needed whole
    total, unknown = 0.0, False
    for experiment in experiments:
        public, config = PUBLIC_SETS[experiment.dataset], configs[experiment.name]
        train, test = (min(n, options.limit or n) for n in (public.n_train, public.n_test))
        shapes = public.shape, public.classes, config.copies_of_each * train, len(config.views) * test
        layer = seconds_per_layer(out, device, precision, config, *shapes)
        unknown = unknown or layer is None
        total += (layer or 0.0) * config.layers
        varied = ", ".join(f"{key} {value}" for key, value in experiment.changes.items() if key != "layers")
        table.add_row(
            experiment.name,
            experiment.dataset if present[experiment.name] else f"{experiment.dataset} (not here)",
            str(config.layers),
            varied or "–",
            "; ".join(f"{figure.accuracy:g}" for figure in experiment.paper),
            "unknown" if layer is None else show_seconds(layer * config.layers),
        )
    console.print(table)
    if unknown:
        say(console, f"times are unknown until rescnet bench --out {out}/bench-….json has run on this device")
    else:
        say(console, f"all together about {show_seconds(total)}")


def _write_table(plan: Plan, results: Results) -> None:
    """Write the table and the figures beside the JSON file."""
    from ..experiments.presentation import can_draw, datasets, draw_curves, markdown

    entries = results.entries()
    if not entries:
        return
    results.file.with_suffix(".md").write_text("\n".join([f"# {plan.title}", "", *markdown(plan, entries), ""]))
    for dataset in datasets(plan, entries) if can_draw() else ():
        draw_curves(results.file.with_name(f"{results.file.stem}-{dataset}.svg"), plan, entries, dataset)


def _print_table(console: Console, plan: Plan, results: Results) -> None:
    from ..experiments.presentation import table_rows, titles

    table = Table(title=plan.title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles(results.entries()):
        table.add_column(title, overflow="fold")
    for row in table_rows(plan, results.entries()):
        table.add_row(*(escape(cell.replace("**", "")) for cell in row))
    console.print(table)


def _is_here(dataset: str, root: Path | None) -> bool:
    from ..data import describe

    return any(row.present for row in describe(root) if row.name == dataset)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM, e.g. of a batch system, like Ctrl-C, so that layers are saved."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
