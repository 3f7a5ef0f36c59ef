"""``rescnet bench``: seconds and memory of a layer by stage, of the readout and of prediction."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..config.compute import ComputeOptions
from ..text import show_bytes
from .shared import check_out, given, plain_table, say, with_flags, write_json


@with_flags(ComputeOptions)
def bench(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="Preset, or default: the default network, 500 images. May be repeated. "
            "Default: all in full size on a GPU, digits and default on a CPU."
        ),
    ] = None,
    images: Annotated[int | None, typer.Option(help="Training images; a fifth as many are test images.", min=2)] = None,
    filters: Annotated[
        int | None, typer.Option(help="Filters per layer. Default: the preset's, 16 on a CPU.", min=2)
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers measured, after two to warm up.", min=1)] = 5,
    seconds: Annotated[float | None, typer.Option(help="Start nothing after this time; finished ones count.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file, rewritten after each measurement.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, tables on stderr.")] = False,
    **compute_options: Any,
) -> None:
    """Measure a layer on this machine: seconds and peak memory by stage; then the readout, and prediction.

    Images are random. The time is the median of several layers after two to warm up. The readout is fitted to these
    layers, not to all of the preset's.
    """
    from ..experiments.bench import choose_cases, measure_case
    from ..network.device import choose_device
    from ..training.stopwatch import free_memory

    deadline = time.monotonic() + seconds if seconds else None
    console = Console(stderr=as_json)
    check_out(out, overwrite=True)
    compute = ComputeOptions(**given(compute_options, ComputeOptions))
    cases = choose_cases(preset or [], choose_device(compute.device), images, filters)
    results: list[dict[str, Any]] = []
    failures: list[str] = []
    with Console(stderr=True).status("drawing images") as status:
        for case in cases:
            try:
                results.append(measure_case(case, compute, layers, deadline, status.update))
            except (ValueError, ArithmeticError, RuntimeError) as error:
                failures.append(str(error).splitlines()[0])
                say(console, f"\n[bold]{case.name}[/bold]: not measured: {escape(failures[-1])}")
                continue
            finally:
                free_memory()
            if out is not None:
                write_json(out, results)
            _print(console, results[-1])
    if not results:
        raise ValueError(failures[0])
    if as_json:
        typer.echo(json.dumps(results))


def _print(console: Console, result: Mapping[str, Any]) -> None:
    say(console, f"\n[bold]{result['name']}[/bold]: {result['features']:,} features, {result['dataset']}")
    say(
        console,
        f"a layer takes [bold]{result['seconds']:.3f} s[/bold], {result['images_per_second']:,.0f} images per second; "
        f"peak {show_bytes(result['peak_memory'])}; {result['device']}",
    )
    console.print(_stage_table(result))
    layers, readout, predicted = (result[k] for k in ("layers", "readout_seconds", "prediction_seconds_per_image"))
    if readout is not None:
        say(console, f"readout, after {layers} layers, and accuracy of test images: [bold]{readout:.2f} s[/bold]")
    if predicted is not None:
        say(console, f"prediction with {layers} layers: [bold]{1000 * predicted:.2f} ms[/bold] per image")


def _stage_table(result: Mapping[str, Any]) -> Table:
    table = plain_table("stage", "seconds", "share", "peak memory")
    total = sum(result["seconds_by_stage"].values())
    for stage, seconds in result["seconds_by_stage"].items():
        peak = show_bytes(result["memory_by_stage"][stage])
        table.add_row(stage, f"{seconds:.4f}", f"{100 * seconds / total:.0f} %", peak)
    return table
