"""``rescnet bench``: seconds of one layer by stage, or our heads beside scikit-learn's."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..config.compute import ComputeOptions
from .shared import plain_table, write_json

if TYPE_CHECKING:
    from ..experiments.bench import Case


def bench(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="Preset of a public set, or cifar10-adaptive (all 21 cells). May be repeated. Default: five at full "
            "size on a GPU, two small ones on a CPU."
        ),
    ] = None,
    images: Annotated[int | None, typer.Option(help="Training images; a fifth as many are test images.", min=2)] = None,
    filters: Annotated[
        int | None, typer.Option(help="Filters per layer. Default: the preset's, 16 on a CPU.", min=2)
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers measured, after two to warm up.", min=1)] = 5,
    precision: Annotated[str, typer.Option(help="exact, balanced, fast or auto.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, … or auto: a GPU if there is one.")] = "auto",
    memory: Annotated[str, typer.Option(help="Memory limit of training, e.g. 16GB.")] = "auto",
    seconds: Annotated[float | None, typer.Option(help="Start nothing after this time; finished ones count.")] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Time our heads beside scikit-learn's instead, on the CPU.")
    ] = False,
    rows: Annotated[int, typer.Option(help="With --heads: training rows.", min=100)] = 10_000,
    features: Annotated[int, typer.Option(help="With --heads: features per row.", min=2)] = 4_000,
    out: Annotated[Path | None, typer.Option(help="JSON file, rewritten after each measurement.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, tables on stderr.")] = False,
) -> None:
    """Measure one layer: seconds, TFLOP/s and GB/s by stage, against ceilings measured on this machine.

    Images are random. The time is the median of several layers after two to warm up.
    """
    from ..experiments.bench import choose_cases
    from ..network.device import choose_device

    deadline = time.monotonic() + seconds if seconds else None
    console = Console(stderr=as_json)
    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(f"--out must be in an existing folder, got {str(out)!r}. Create the folder first.")
    if heads:
        found: Any = _heads(console, rows, features, deadline, out)
    else:
        compute = ComputeOptions(device=device, precision=precision, memory=memory)  # type: ignore[arg-type]
        cases = choose_cases(preset or [], choose_device(device), images, filters)
        found = _layers(console, cases, layers, compute, deadline, out)
    if as_json:
        typer.echo(json.dumps(found))


def _layers(
    console: Console, cases: list[Case], layers: int, compute: ComputeOptions, deadline: float | None, out: Path | None
) -> list[dict[str, Any]]:
    from ..experiments.bench import measure_case
    from ..experiments.costs import free_memory, measure_ceilings
    from ..network.device import choose_device

    results: list[dict[str, Any]] = []
    failures: list[str] = []
    with Console(stderr=True).status("measuring the ceilings") as status:
        ceilings = measure_ceilings(choose_device(compute.device))
        products = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in ceilings.items() if name != "copy")
        copy = f"{ceilings['copy'] / 1e9:.3g} GB/s"
        console.print(f"ceilings measured here: {products} TFLOP/s; copy {copy}", highlight=False)
        for case in cases:
            try:
                result = measure_case(case, compute, ceilings, layers, deadline=deadline, progress=status.update)
            except (ValueError, ArithmeticError, RuntimeError) as error:
                failures.append(str(error).splitlines()[0])
                console.print(f"\n[bold]{case.describe()}[/bold]: not measured: {failures[-1]}", highlight=False)
                continue
            finally:
                free_memory()
            results.append(result)
            if out is not None:
                write_json(out, results)
            console.print(_title(result), highlight=False)
            console.print(_stage_table(result))
    if not results:
        raise ValueError(failures[0])
    return results


def _heads(console: Console, rows: int, features: int, deadline: float | None, out: Path | None) -> dict[str, Any]:
    import sklearn

    from ..experiments.bench import SHRINKAGE, compare_heads
    from ..experiments.records import origin

    run = origin("cpu")
    result: dict[str, Any] = {
        "name": "heads",
        "dataset": f"random rows: {rows} to learn from, 2000 held out, {features} features, 10 classes",
        "config": {"rows": rows, "features": features, "classes": 10, "held": 2000, "shrinkage": SHRINKAGE},
        **run,
        "versions": run["versions"] | {"scikit-learn": sklearn.__version__},
        "seed": 0,
        "heads": [],
    }
    table = Table("head", "seconds", "against ours", "in CPU time", "accuracy", box=None, padding=(0, 3, 0, 0))
    with Console(stderr=True).status("drawing rows") as status:
        for head in compare_heads(rows, features, deadline=deadline, progress=status.update):
            result["heads"].append(head)
            if out is not None:
                write_json(out, result)
            ratios = f"{head['ratio']:.2f} ×", f"{head['cpu_ratio']:.2f} ×"
            table.add_row(head["name"], f"{head['seconds']:.2f}", *ratios, f"{100 * head['accuracy']:.2f} %")
    if not result["heads"]:
        raise ValueError("the time limit was reached before a head was measured: allow more seconds.")
    console.print(f"[bold]heads[/bold]: {result['dataset']}; {result['device']}", highlight=False)
    console.print(table)
    return result


def _title(result: Mapping[str, Any]) -> str:
    least = sum(stage["least_seconds"] for stage in result["stages"].values())
    return (
        f"\n[bold]{result['name']}[/bold]: {result['features']:,} features, {result['dataset']}\n"
        f"a layer takes [bold]{result['seconds']:.3f} s[/bold] ({result['protocol']}); "
        f"at the ceilings it would take {least:.3f} s; peak {result['peak_memory'] / 1e9:.1f} GB"
    )


def _stage_table(result: Mapping[str, Any]) -> Table:
    titles = ("stage", "seconds", "share", "GFLOP", "TFLOP/s", "of max", "GB", "GB/s", "of max", "least s")
    table = plain_table(*titles, gap=1)
    total = sum(result["seconds_by_stage"].values())
    for stage, seconds in result["seconds_by_stage"].items():
        cells = [stage, f"{seconds:.4f}", f"{100 * seconds / total:.0f} %"]
        if known := result["stages"].get(stage):
            ceiling = known["share_of_operations_ceiling"]
            cells += [f"{known['operations'] / 1e9:,.1f}", f"{known['tflops']:.3f}"]
            cells += ["–" if ceiling is None else f"{100 * ceiling:.1f} %", f"{known['bytes'] / 1e9:.2f}"]
            cells += [f"{known['gigabytes_per_second']:,.1f}", f"{100 * known['share_of_copy_ceiling']:.1f} %"]
            cells += [f"{known['least_seconds']:.4f}"]
        table.add_row(*cells)
    return table
