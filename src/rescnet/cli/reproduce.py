"""``rescnet reproduce``: a table or figure of the paper, run again, ours beside the paper's."""

from __future__ import annotations

import gc
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

if TYPE_CHECKING:
    from ..experiments.reproduce import Experiment, Plan, RunOptions
    from ..network.history import LayerRecord

LAYERS_BETWEEN_LINES = 10
SPLITS = {"train": "to learn from", "validation": "held out", "test": "to test with"}


def reproduce(
    name: Annotated[str, typer.Argument(help="table2, figure2, table3, table4; or beyond: our best networks.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Run this experiment only, as cifar10; as often as you like.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers at most, instead of the paper's.", min=1)] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Begin no layer after so many seconds; the same command goes on later.", min=0)
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="For a trial: about so many training and test images, results in their own file.", min=1),
    ] = None,
    held_out: Annotated[int, typer.Option(help="Training images the depth is chosen on; 0: none.", min=0)] = 5000,
    config: Annotated[Path | None, typer.Option(help="TOML file of options that override the presets'.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw; default: the preset's.")] = None,
    precision: Annotated[str, typer.Option(help="exact, balanced or fast; auto: as in training.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, …; auto: a GPU if there is one.")] = "auto",
    memory: Annotated[str, typer.Option(help="Bytes training may use, as 16GB.")] = "auto",
    root: Annotated[Path | None, typer.Option(help="Folder of the public sets.", show_default=False)] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch a data set that is not here.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of NAME.json, NAME.md and the plots.")] = Path("results"),
    state: Annotated[Path, typer.Option(help="Folder the layers are kept in, to go on from.")] = Path("runs/reproduce"),
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Keep no layers: a run cut short begins anew, its history is written.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Run finished experiments again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and the time expected, run nothing.")
    ] = False,
) -> None:
    """Run the experiments of a table or figure of the paper, and write what came out beside what it reports.

    Test accuracy is told in three ways: at the depth chosen on held-out training images, at the last layer, and at the
    best layer of the test curve, which is the paper's rule. Settings are the presets'.
    """
    from ..config.compute import ComputeOptions
    from ..data.fetching import default_root
    from ..experiments.reproduce import Results, RunOptions, load_plan
    from ..network.device import choose_device

    plan = load_plan(name)
    experiments = plan.only(only or [])
    for option, folder in (("--out", out), ("--state", state)):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} {folder} is a file: name a folder, it need not be there.")
    compute = ComputeOptions(device=device, precision=precision, memory=memory)  # type: ignore[arg-type]
    choose_device(device)
    options = RunOptions(
        held_out=held_out,
        limit=limit,
        state=None if no_save else state,
        deadline=None if seconds is None else time.monotonic() + seconds,
        compute=compute,
    )
    overrides = {"layers": layers, "seed": seed}
    overrides = {key: value for key, value in overrides.items() if value is not None}
    console, results = Console(), Results(out / f"{_stem(name, limit)}.json")
    configs = {experiment.name: experiment.config(config, **overrides) for experiment in experiments}
    present = {experiment.name: download or _is_here(experiment.dataset, root) for experiment in experiments}
    if dry_run:
        _print_plan(console, plan, experiments, configs, present, options, out)
        return
    if not any(present.values()):
        raise ValueError(
            f"none of the data sets of {name} is whole in {root or default_root()}: name their folder with --root, or "
            "say --download."
        )
    with _terminate_as_interrupt():
        for experiment in experiments:
            if not present[experiment.name]:
                _say(console, f"{experiment.name}: {experiment.dataset} is not here, skipped (--download fetches it)")
                continue
            try:
                _run(console, experiment, configs[experiment.name], results, options, root, again)
            finally:
                _write_table(plan, results)
    _print_table(console, plan, results)


def _run(
    console: Console,
    experiment: Experiment,
    config: Any,
    results: Any,
    options: RunOptions,
    root: Path | None,
    again: bool,
) -> None:
    import torch

    from ..experiments.reproduce import ExperimentRun, plan_names
    from ..experiments.reproduce.running import experiment_key
    from ..formatting import count
    from .sources import check_limit, load_source

    key = experiment_key(experiment, config, options)
    siblings = [_stem(table, options.limit) for table in plan_names()]
    done = results.finished(key, config.layers, experiment.name, siblings)
    if done and not again:
        own = experiment.name, experiment.label, experiment.changes, [vars(figure) for figure in experiment.paper]
        results.put(done | dict(zip(("name", "label", "changes", "paper"), own, strict=True)))
        _say(
            console, f"[bold]{experiment.name}[/bold]: finished before, {done['layers']} layers (--again runs it anew)"
        )
        return
    if options.deadline is not None and time.monotonic() > options.deadline:
        _say(console, f"{experiment.name}: not begun, the time is over")
        return
    dataset = load_source(experiment.dataset, root)
    check_limit(dataset, options.limit)
    run = ExperimentRun(experiment, config, dataset, results, options, _layer_printer(console, config.layers))
    if again:
        run.forget()
    images = ", ".join(f"{number:,} {SPLITS[split]}" for split, number in run.images.items())
    depth = f"up to {count(config.layers, 'layer', 'layers')}"
    _say(console, f"[bold]{experiment.name}[/bold]: {escape(experiment.label)}, {depth}; images: {images}")
    if left := min(run.left_before(), config.layers):
        _say(console, f"  going on after layer {left}, whose maps are computed anew first")
    try:
        entry = run.go()
    except KeyboardInterrupt:
        kept = "nothing is kept" if options.state is None else "the same command goes on from there"
        _say(console, f"  cut short after {count(run.layers, 'layer', 'layers')}: {kept}")
        raise
    if entry is None:
        _say(console, "  no layer was learnt: the time is over")
        return
    _say(
        console,
        f"  {count(entry['layers'], 'layer', 'layers')} in {entry['seconds']:.0f} s; "
        f"stopped because {entry['stopped']}",
    )
    if entry["readout"]:
        found = (entry["readout"][f"{split}_accuracy"] for split in ("validation", "test"))
        held, test = ("–" if share is None else f"{100 * share:.2f}" for share in found)
        _say(console, f"  with the kernel readout  held out {held}  test {test}  {entry['readout']['seconds']:.2f} s")
    del run, dataset
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _stem(table: str, limit: int | None) -> str:
    """Return the name of a table's file: a trial with few images has its own."""
    return table if limit is None else f"{table}-of-{limit}-images"


def _layer_printer(console: Console, layers: int) -> Any:
    def show(record: LayerRecord) -> None:
        if record.layer % LAYERS_BETWEEN_LINES in (0, 1) or record.layer == layers:
            found = (record.train_accuracy, record.validation_accuracy, record.test_accuracy)
            train, held, test = ("–" if share is None else f"{100 * share:.2f}" for share in found)
            _say(
                console,
                f"  layer {record.layer:4d}  training {train}  held out {held}  test {test}  "
                f"{record.total_seconds:.2f} s",
            )

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
    from ..experiments.provenance import device_name
    from ..experiments.reproduce.forecast import seconds_per_layer
    from ..formatting import show_seconds
    from ..network.device import choose_device, choose_precision

    chosen = choose_device(options.compute.device)
    device, precision = device_name(chosen), choose_precision(options.compute, chosen)
    _say(console, f"[bold]{escape(plan.title)}[/bold], on {device}")
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
    if others := ", ".join(e.name for e in plan.experiments if e.another_reading and e not in experiments):
        _say(console, f"other readings, each run with --only: {others}")
    if unknown:
        _say(console, f"times are unknown until rescnet bench --out {out}/bench-….json has run on this device")
    else:
        _say(console, f"all together about {show_seconds(total)}")


def _write_table(plan: Plan, results: Any) -> None:
    """Write the table and the plots beside the JSON file."""
    from ..experiments.reproduce.plots import curves, datasets
    from ..experiments.reproduce.tables import markdown

    entries = results.entries()
    if not entries:
        return
    text = "\n".join([f"# {plan.title}", "", *markdown(plan, entries), ""])
    results.file.with_suffix(".md").write_text(text)
    for dataset in datasets(plan, entries):
        results.file.with_name(f"{results.file.stem}-{dataset}.svg").write_text(curves(plan, entries, dataset))


def _print_table(console: Console, plan: Plan, results: Any) -> None:
    from ..experiments.reproduce.tables import table_rows, titles

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
    """Treat the signal of ``timeout`` and of batch systems like Ctrl-C: layers are saved before the end."""
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


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
