"""``rescnet bench``: what a layer costs on this machine, or our heads beside scikit-learn's."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def bench(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="What to time, as often as you like: a preset of a public set, or cifar10-adaptive (all 21 cells); "
            "by default five at full size on a GPU, two small ones on a CPU.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        int | None, typer.Option(help="Training images, and a fifth as many test images.", min=2, show_default=False)
    ] = None,
    filters: Annotated[
        int | None,
        typer.Option(help="Filters in every layer; by default the preset's, on a CPU 16.", min=2, show_default=False),
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers measured, after two to warm up.", min=1)] = 5,
    precision: Annotated[str, typer.Option(help="exact, balanced or fast; auto: as in training.")] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …; auto: a GPU if there is one.")] = "auto",
    memory: Annotated[str, typer.Option(help="Bytes training may use, as 16GB.")] = "auto",
    seconds: Annotated[
        float | None,
        typer.Option(help="Begin nothing new after so many seconds; what is measured counts.", show_default=False),
    ] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Time our heads beside scikit-learn's instead, on the CPU.")
    ] = False,
    rows: Annotated[int, typer.Option(help="With --heads: rows to learn from.", min=100)] = 10_000,
    features: Annotated[int, typer.Option(help="With --heads: features of a row.", min=2)] = 4_000,
    out: Annotated[
        Path | None, typer.Option(help="JSON file to write, after each measurement anew.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, tables on stderr.")] = False,
) -> None:
    """Measure what a layer costs: seconds, TFLOP/s and GB/s by stage, against ceilings measured on this machine.

    Images are random; a time is the median of several layers after two to warm up.
    """
    deadline = time.monotonic() + seconds if seconds else None
    console = Console(stderr=as_json)
    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {str(out.parent)!r} to write {out.name} to: make it first.")
    if heads:
        found: Any = _heads(console, rows, features, deadline, out)
    else:
        found = _layers(console, preset or [], images, filters, layers, precision, device, memory, deadline, out)
    if as_json:
        typer.echo(json.dumps(found))


def _layers(
    console: Console,
    names: list[str],
    images: int | None,
    filters: int | None,
    layers: int,
    precision: str,
    device: str,
    memory: str,
    deadline: float | None,
    out: Path | None,
) -> list[dict[str, Any]]:
    import torch

    from ..config.compute import ComputeOptions
    from ..experiments.bench import choose_cases, measure_case, measure_ceilings
    from ..network.device import choose_device

    compute = ComputeOptions(device=device, precision=precision, memory=memory)  # type: ignore[arg-type]
    chosen = choose_device(device)
    cases = choose_cases(names, chosen, images, filters)
    status = Console(stderr=True).status("measuring the ceilings")
    results: list[dict[str, Any]] = []
    failures: list[str] = []
    with status:
        ceilings = measure_ceilings(chosen)
        console.print(_ceiling_line(ceilings), highlight=False)
        for case in cases:
            try:
                result = measure_case(case, compute, ceilings, layers, deadline=deadline, told=status.update)
            except (ValueError, ArithmeticError, RuntimeError) as error:
                failures.append(str(error).splitlines()[0])
                console.print(f"\n[bold]{case.describe()}[/bold]: not measured: {failures[-1]}", highlight=False)
                continue
            finally:
                gc.collect()
                if chosen.type == "cuda":
                    torch.cuda.empty_cache()
            results.append(result)
            write_json(out, results)
            console.print(_title(result), highlight=False)
            console.print(_stage_table(result))
    if not results:
        raise ValueError(failures[0] if failures else "nothing was asked for: name a preset.")
    return results


def _heads(console: Console, rows: int, features: int, deadline: float | None, out: Path | None) -> dict[str, Any]:
    from ..experiments.bench.sklearn_heads import SHRINKAGE, compare_heads
    from ..experiments.provenance import origin

    result: dict[str, Any] = {
        "name": "heads",
        "dataset": f"random rows: {rows} to learn from, 2000 held out, {features} features, 10 classes",
        "config": {"rows": rows, "features": features, "classes": 10, "held": 2000, "shrinkage": SHRINKAGE},
        **origin("cpu"),
        "seed": 0,
        "heads": [],
    }
    import sklearn

    result["versions"]["scikit-learn"] = sklearn.__version__
    table = Table("head", "seconds", "against ours", "in CPU time", "accuracy", box=None, padding=(0, 3, 0, 0))
    with Console(stderr=True).status("drawing rows") as status:
        for head in compare_heads(rows, features, deadline=deadline, told=status.update):
            result["heads"].append(head)
            write_json(out, result)
            table.add_row(
                head["name"],
                f"{head['seconds']:.2f}",
                f"{head['ratio']:.2f} ×",
                f"{head['cpu_ratio']:.2f} ×",
                f"{100 * head['accuracy']:.2f} %",
            )
    if not result["heads"]:
        raise ValueError("the time was over before a head was measured: allow more seconds.")
    console.print(f"[bold]heads[/bold]: {result['dataset']}; {result['device']}", highlight=False)
    console.print(table)
    return result


def write_json(out: Path | None, content: Any) -> None:
    """Write a result whole, beside its place first: a reader never finds half a file."""
    if out is None:
        return
    beside = out.with_name(out.name + ".part")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(out)


def _ceiling_line(ceilings: Mapping[str, float]) -> str:
    products = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in ceilings.items() if name != "copy")
    return f"ceilings measured here: {products} TFLOP/s; copy {ceilings['copy'] / 1e9:.3g} GB/s"


def _title(result: Mapping[str, Any]) -> str:
    least = sum(stage["least_seconds"] for stage in result["stages"].values())
    return (
        f"\n[bold]{result['name']}[/bold]: {result['features']:,} features, {result['dataset']}\n"
        f"a layer takes [bold]{result['seconds']:.3f} s[/bold] ({result['protocol']}); "
        f"at the ceilings it would take {least:.3f} s; peak {result['peak_memory'] / 1e9:.1f} GB"
    )


def _stage_table(result: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    titles = ("stage", "seconds", "share", "GFLOP", "TFLOP/s", "of max", "GB", "GB/s", "of max", "least s")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    total = sum(result["seconds_by_stage"].values())
    for stage, seconds in result["seconds_by_stage"].items():
        known = result["stages"].get(stage)
        if known is None:
            table.add_row(stage, f"{seconds:.4f}", f"{100 * seconds / total:.0f} %")
            continue
        ceiling = known["share_of_operations_ceiling"]
        table.add_row(
            stage,
            f"{seconds:.4f}",
            f"{100 * seconds / total:.0f} %",
            f"{known['operations'] / 1e9:,.1f}",
            f"{known['tflops']:.3f}",
            "–" if ceiling is None else f"{100 * ceiling:.1f} %",
            f"{known['bytes'] / 1e9:.2f}",
            f"{known['gigabytes_per_second']:,.1f}",
            f"{100 * known['share_of_copy_ceiling']:.1f} %",
            f"{known['least_seconds']:.4f}",
        )
    return table
