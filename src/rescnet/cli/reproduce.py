"""``rescnet reproduce``: run a table or figure of the paper, and show ours beside the paper's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..config.compute import ComputeOptions
from ..text import count, show_percent, show_seconds
from .shared import Root, given, say, with_flags

if TYPE_CHECKING:
    from ..config.network import NetworkConfig
    from ..experiments.plans import Experiment, Plan
    from ..experiments.records import Results
    from ..experiments.runner import RunOptions
    from ..network.history import LayerRecord

LAYERS_BETWEEN_LINES = 10
SPLITS = {"train": "training", "validation": "held out", "test": "test"}


@with_flags(ComputeOptions)
def reproduce(
    name: Annotated[
        str, typer.Argument(help="table2, figure2, table3, table4; records: our best networks; beyond: deep ones too.")
    ],
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
    held_out: Annotated[
        int | None, typer.Option(help="Training images that choose the depth. Default: 5000, none for records.", min=0)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of options that override the presets'.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: the preset's.")] = None,
    root: Root = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing data sets.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of NAME.json, NAME.md and the figures.")] = Path("results"),
    state: Annotated[Path, typer.Option(help="Folder of unfinished layers, to resume from.")] = Path("runs/reproduce"),
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Keep no layers: an interrupted run starts again.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run finished experiments again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and the expected time only.")] = False,
    **compute_options: Any,
) -> None:
    """Run the experiments of a table or figure of the paper, and write the results beside what it reports.

    Test accuracy is shown at the depth chosen on held-out training images, at the last layer, and at the best layer of
    the test curve, which is the paper's rule. Settings are the presets'.
    """
    from ..data import default_root
    from ..experiments.plans import RECORDS, load_plan
    from ..experiments.presentation import NO_PLOTS, can_draw
    from ..experiments.records import Results, device_name
    from ..experiments.runner import RunOptions
    from ..network.device import choose_device

    plan = load_plan(name)
    experiments = plan.only(only or [])
    for option, folder in (("--out", out), ("--state", state)):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} must be a folder, got the file {folder}. Name another one.")
    compute = ComputeOptions(**given(compute_options, ComputeOptions))
    device = choose_device(compute.device)
    deadline = None if seconds is None else time.monotonic() + seconds
    if held_out is None:
        held_out = 0 if name == RECORDS else 5000  # the depth of a record is fixed
    options = RunOptions(held_out, limit, None if no_save else state, deadline, compute)
    overrides = {key: value for key, value in (("layers", layers), ("seed", seed)) if value is not None}
    # A trial with few images has its own file.
    results = Results(out / (f"{name}.json" if limit is None else f"{name}-of-{limit}-images.json"))
    configs = {experiment.name: experiment.config(config, **overrides) for experiment in experiments}
    present = {experiment.dataset: download or _is_here(experiment.dataset, root) for experiment in experiments}
    console = Console()
    if dry_run:
        say(console, f"[bold]{escape(plan.title)}[/bold], on {device_name(device)}")
        _print_plan(console, experiments, configs, present, results, device_name(device))
        return
    if not any(present.values()):
        raise ValueError(
            f"none of the data sets of {name} is complete in {root or default_root()}: name their folder with --root, "
            "or use --download."
        )
    for experiment in experiments:
        if not present[experiment.dataset]:
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
    config: NetworkConfig,
    results: Results,
    options: RunOptions,
    root: Path | None,
    again: bool,
) -> None:
    from ..experiments.runner import ExperimentRun, experiment_key
    from ..network.history import StopReason
    from ..training.stopwatch import free_memory
    from .images import check_limit, load_source

    key = experiment_key(experiment, config, options)
    done = results.finished(key, config.layers, experiment.name)
    if done and not again:
        layers = count(done["layers"], "layer", "layers")
        say(console, f"[bold]{experiment.name}[/bold]: finished before, {layers} (--again repeats it)")
        return
    if options.time_is_up:
        say(console, f"{experiment.name}: not started, the time limit was reached")
        return
    dataset = load_source(experiment.dataset, root)
    check_limit(dataset, options.limit)
    run = ExperimentRun(experiment, config, dataset, results, options, _layer_printer(console, config.layers), again)
    images = ", ".join(f"{number:,} {SPLITS[split]}" for split, number in run.images.items())
    depth = f"up to {count(config.layers, 'layer', 'layers')}"
    say(console, f"[bold]{experiment.name}[/bold]: {escape(experiment.label)}, {depth}; images: {images}")
    if run.layers:
        say(console, f"  resuming after layer {run.layers}; its maps are computed first")
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
    why = StopReason.early(entry["stopped"])
    say(console, f"  {took}; stopped because {why}" if why else f"  {took}")
    if readout := entry["readout"]:
        held, test = (show_percent(readout[f"{split}_accuracy"]) for split in ("validation", "test"))
        say(console, f"  with the kernel readout  held out {held}  test {test}  {readout['seconds']:.2f} s")
    del run, dataset
    free_memory()


def _layer_printer(console: Console, layers: int) -> Callable[[LayerRecord], None]:
    def show(record: LayerRecord) -> None:
        if record.layer % LAYERS_BETWEEN_LINES in (0, 1) or record.layer == layers:
            train, held = show_percent(record.train_accuracy), show_percent(record.validation_accuracy)
            accuracies = f"training {train}  held out {held}  test {show_percent(record.test_accuracy)}"
            seconds, left = record.total_seconds, layers - record.layer
            rest = f", about {show_seconds(left * seconds)} left" if left and record.layer > 1 else ""
            say(console, f"  layer {record.layer:4d}  {accuracies}  {seconds:.2f} s{rest}")

    return show


def _print_plan(
    console: Console,
    experiments: Sequence[Experiment],
    configs: Mapping[str, NetworkConfig],
    present: Mapping[str, bool],
    results: Results,
    device: str,
) -> None:
    """Print the experiments; the expected time follows from layers that have run on this device, or from our record."""
    entries = [entry for entry in results.entries() if entry["device"] == device]
    per_layer = {entry["name"]: entry["seconds"] / entry["layers"] for entry in entries}
    width = max(len(experiment.name) for experiment in experiments)
    for experiment in experiments:
        layers, recorded, where = configs[experiment.name].layers, experiment.recorded, ""
        seconds = per_layer.get(experiment.name)
        if seconds is None and recorded is not None:
            seconds, where = recorded.seconds / recorded.layers, f" on {recorded.device}"
        expected = "time unknown" if seconds is None else f"{show_seconds(seconds * layers)}{where}"
        here = experiment.dataset if present[experiment.dataset] else f"{experiment.dataset} (not here)"
        published = ", ".join(f"{figure.accuracy:g}" for figure in experiment.paper)
        line = f"{here}, {count(layers, 'layer', 'layers')}, {expected}"
        line += f"; published {published}" if published else ""
        say(console, f"[bold]{experiment.name:{width}}[/bold]  {escape(line)}")
        if varied := [f"{key} {value}" for key, value in experiment.changes.items() if key != "layers"]:
            say(console, f"{'':{width}}  {escape(', '.join(varied))}", "dim")
    if any(name not in per_layer for name in configs):
        say(console, "times on this device are unknown until some layers have run, e.g. with --layers 5")


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
    """Print the experiments that were run, without empty columns; the file has all."""
    from ..experiments.presentation import table_rows, titles

    entries = results.entries()
    names = {entry["name"] for entry in entries}
    rows = table_rows(replace(plan, experiments=tuple(e for e in plan.experiments if e.name in names)), entries)
    columns = [column for column in zip(titles(entries), *rows, strict=True) if set(column[1:]) - {"", "–"}]
    table = _folding_table(*(title for title, *_ in columns), title=plan.title, title_justify="left")
    for row in zip(*(cells for _, *cells in columns), strict=True):
        table.add_row(*(escape(cell.replace("**", "")) for cell in row))
    console.print(table)


def _folding_table(*titles: str, **settings: Any) -> Table:
    """Return a table without lines whose long cells are folded, because names are needed whole."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **settings)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _is_here(dataset: str, root: Path | None) -> bool:
    from ..data import describe

    return any(row.present for row in describe(root) if row.name == dataset)
