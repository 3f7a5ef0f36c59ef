"""Seconds of a layer by stage for all presets in several precisions: ``rescnet bench`` once for each, into one file.

python benchmarks/layer_times.py --out results/bench-gpu.json --precisions balanced,fast --seconds 500
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path

import torch

from rescnet import ComputeOptions
from rescnet.cli.bench import write_json
from rescnet.experiments.bench import choose_cases, measure_case, measure_ceilings


def main() -> None:
    """Time every case and write what came out, after each anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--precisions", default="balanced,fast")
    parser.add_argument("--cases", default="", help="names as rescnet bench --preset takes them, with commas")
    parser.add_argument("--images", type=int, default=None)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3600)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ceilings = measure_ceilings(device)
    names = [name for name in arguments.cases.split(",") if name]
    command = f"python benchmarks/layer_times.py --precisions {arguments.precisions} --out results/{arguments.out.name}"
    results = []
    for case in choose_cases(names, device, arguments.images):
        for precision in arguments.precisions.split(","):
            try:
                result = measure_case(
                    case, ComputeOptions(precision=precision), ceilings, arguments.layers, deadline=deadline
                )
            except (ValueError, ArithmeticError, RuntimeError) as error:
                print(f"{case.describe()} {precision}: not measured: {error}", flush=True)
                continue
            finally:
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
            results.append(result | {"command": command})
            write_json(arguments.out, results)
            stages = " ".join(f"{stage} {seconds:.3f}" for stage, seconds in result["seconds_by_stage"].items())
            print(f"{result['name']}: {result['seconds']:.3f} s: {stages}", flush=True)


if __name__ == "__main__":
    main()
