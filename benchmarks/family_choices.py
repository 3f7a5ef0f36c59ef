"""What the papers leave open in the family, decided on training images held out, never on the test images.

    python benchmarks/family_choices.py mnist --device cuda --seconds 60 --out results/choices-mnist.json
    python benchmarks/family_choices.py cifar10 --device cuda --seconds 120 --out results/choices-cifar10.json

Histograms and their SVM, member by member: blocks, how counts are scaled, C, and how exactly it is solved. What is best
for PCANet goes for every member that has its histograms and no candidates of its own. Multi-layer PCANet: what is
pooled, and how. ``--members`` names those to be tried. ``benchmarks/leagues.py --choices FILE`` takes what was chosen,
and nothing where the preset is the best.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from rescnet.data import load
from rescnet.data.splits import stratified_split
from rescnet.experiments.provenance import origin, shown_command
from rescnet.family import FamilyNetwork, make_member, member_names
from rescnet.family.fitting import fit_member
from rescnet.family.svm import fit_svm
from rescnet.family.workspace import images_at_a_time
from rescnet.network.device import choose_device
from rescnet.network.memory import memory_budget

Options = dict[str, Any]


def svm(cost: float, tolerance: float = 0.001, **others: Any) -> Options:
    """Return a candidate; what changes the features comes in ``others``."""
    return {**others, "svm_cost": cost, "svm_tolerance": tolerance}


CANDIDATES: dict[str, dict[str, list[Options]]] = {  # the first is the preset; those that share features stand together
    "mnist": {
        "pcanet": [
            *(svm(cost) for cost in (10.0, 1.0, 100.0)),
            svm(10.0, 0.01),
            *(svm(cost, block_stride=3) for cost in (10.0, 1.0)),
            *(svm(cost, block_stride=2) for cost in (10.0, 1.0)),
            *(svm(cost, normalisation="l2") for cost in (10.0, 100.0)),
        ],
        "multilayer-pcanet": [{}, {"ridge": 1.0}],
    },
    "cifar10": {
        "pcanet": [
            *(svm(cost) for cost in (1.0, 0.3, 3.0)),
            *(svm(cost, normalisation="sqrt") for cost in (1.0, 0.3)),
        ],
        "ldanet": [
            {},
            *({"bank": bank} for bank in ("lda; pca", "pca; lda")),  # not LDANet: which of its stages costs accuracy?
            *({"within_ridge": ridge} for ridge in (1.0, 3.0, 10.0)),
        ],
        "pcanet-plus": [svm(cost) for cost in (0.3, 0.1, 1.0)],
        "dctnet": [svm(cost) for cost in (1.0, 3.0)],
        "multilayer-pcanet": [
            {},
            *({"pca_bias": bias, "pooling": "max", "cells": "official"} for bias in ("mean", "none")),
            {"ridge": 0.3},
            {"block_stride": 2},
        ],
    },
}
DEFINING = {"bank"}  # a candidate that changes it is another network: told of, never chosen
FILTER_KEYS = {"bank", "filters", "filter_sizes", "patches", "within_ridge", "orthonormal", "pca_bias"}
CHUNK = 250  # held-out images at a time
SVM_KEYS = ("svm_cost", "svm_tolerance")
Split = tuple[Tensor, Tensor, Tensor, Tensor]


def split_of(dataset: str, held: int, limit: int | None, seed: int = 0) -> Split:
    """Return images and labels to learn from, then those held out; all are training images."""
    train = load(dataset).train
    images, labels = train.images[:limit], train.labels[:limit]
    kept, out = stratified_split(labels, held / len(labels), seed)
    parts = (images[kept], labels[kept], images[out], labels[out])
    return tuple(torch.from_numpy(part) for part in parts)  # type: ignore[return-value]


def options_text(options: dict[str, Any]) -> str:
    """Write options as ``rescnet compare`` reads them."""
    return ":".join(f"{key}={_text(value)}" for key, value in options.items())


def _text(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


def all_features(network: FamilyNetwork, images: Tensor, half: bool) -> Tensor:
    """Return the features of the last stage of all images, in half precision if so wanted."""
    chunk = images_at_a_time(network.config, network.image_shape, network.input_range.low)
    width = network.config.features(network.image_shape, network.config.depth)
    device = network.input_range.low.device
    found = torch.empty(len(images), width, dtype=torch.float16 if half else torch.float32, device=device)
    for start in range(0, len(images), chunk):
        *_, (_, maps) = network.staged_maps(images[start : start + chunk])
        found[start : start + chunk] = network.features(maps)
    return found


@torch.inference_mode()
def svm_candidates(
    member: str, split: Split, candidates: list[Options], device: torch.device, memory: int, options: Options
) -> Iterator[tuple[Options, float]]:
    """Yield a member's options and the share of held-out images that are right; filters are learnt once."""
    images, labels, held, held_labels = split
    classes = int(labels.max()) + 1
    shape = (images.shape[1], images.shape[2], images.shape[3])
    # The first SVM is thrown away, and all but free: what is wanted are the filters.
    network = fit_member(images, labels, classes, make_member(member, shape, options | svm(1e-6, 0.5)), device, memory)
    made: Options | None = None
    features = held_features = torch.empty(0)
    for candidate in candidates:
        config = make_member(member, shape, options | candidate)
        wanted = {key: value for key, value in candidate.items() if key not in SVM_KEYS}
        if wanted != made:
            made, features, held_features = wanted, torch.empty(0), torch.empty(0)  # room for the next
            other = replace(network, config=config, heads={})
            features = all_features(other, images, device.type == "cuda")
            held_features = all_features(other, held, False)
        head = fit_svm(features, labels, classes, config.svm_cost, 0, memory, config.svm_tolerance)
        right = head.scores(held_features).argmax(1).cpu() == held_labels
        yield candidate, float(right.double().mean())


@torch.inference_mode()
def whole_candidates(
    member: str, split: Split, candidates: list[Options], device: torch.device, memory: int, options: Options
) -> Iterator[tuple[Options, float]]:
    """Yield a member's options and the share of held-out images that are right; each is learnt from the beginning.

    Where all stages are read, a network of fewer stages is the beginning of a deeper one, and is judged too.
    """
    images, labels, held, held_labels = split
    shape = (images.shape[1], images.shape[2], images.shape[3])
    for candidate in candidates:
        config = make_member(member, shape, options | candidate)
        network = fit_member(images, labels, int(labels.max()) + 1, config, device, memory)
        right = dict.fromkeys(sorted(network.heads), 0)
        for part, truth in zip(*(torch.split(every, CHUNK) for every in (held, held_labels)), strict=True):
            for stage, scores in network.running_scores(part):
                right[stage] += int((scores.argmax(1).cpu() == truth).sum())
        for stage in sorted(right, reverse=True):
            fewer = {} if stage == config.depth else {"filters": config.filters[:stage]}
            yield candidate | fewer, right[stage] / len(held)


def way_to_try(
    member: str, candidates: list[Options], shape: tuple[int, int, int]
) -> Callable[..., Iterator[tuple[Options, float]]]:
    """Return which of the two ways suits a member's candidates: filters are learnt once if none changes them."""
    same_filters = not any(FILTER_KEYS & set(candidate) for candidate in candidates)
    return svm_candidates if same_filters and make_member(member, shape).classifier == "svm" else whole_candidates


def differing(member: str, shape: tuple[int, int, int], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the member's preset does not have anyway."""
    preset = make_member(member, shape)
    return {key: value for key, value in options.items() if getattr(preset, key) != value}


def takes_the_svm(member: str, shape: tuple[int, int, int]) -> bool:
    """Return whether what was chosen for PCANet goes for a member too."""
    config, pcanet = make_member(member, shape), make_member("pcanet", shape)
    return config.output == "histogram" and config.normalisation == pcanet.normalisation and config.growth == "each-map"


def chosen_for(tried: list[dict[str, Any]], shape: tuple[int, int, int]) -> dict[str, str]:
    """Return the options of each member that is not to stay as it is."""
    best: dict[str, Options] = {}
    for row in sorted(tried, key=lambda row: -row["accuracy"]):  # the first of equals stays first
        if not DEFINING & set(row["options"]):
            best.setdefault(row["member"], row["options"])
    for member in member_names():
        if "pcanet" in best and member not in best and takes_the_svm(member, shape):
            best[member] = best["pcanet"]
    texts = {member: options_text(differing(member, shape, options)) for member, options in best.items()}
    return {member: text for member, text in texts.items() if text}


def main() -> None:
    """Try the candidates as long as there is time, and write all with what was chosen."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("dataset", choices=sorted(CANDIDATES))
    made.add_argument("--members", default=None, help="parted by commas; default: all that have candidates")
    made.add_argument("--device", default="auto")
    made.add_argument("--memory", default="auto")
    made.add_argument("--held", type=int, default=5000, help="training images held out")
    made.add_argument("--limit", type=int, default=None, help="training images in all, for a trial")
    made.add_argument("--filters", default=None, help="as '8 8', for a trial")
    made.add_argument("--seconds", type=float, default=90, help="no candidate is begun after so many")
    made.add_argument("--out", type=Path, required=True)
    arguments = made.parse_args()
    deadline = time.monotonic() + arguments.seconds
    device = choose_device(arguments.device)
    memory = memory_budget(arguments.memory, device)
    split = split_of(arguments.dataset, arguments.held, arguments.limit)
    shape = (split[0].shape[1], split[0].shape[2], split[0].shape[3])
    tried: list[dict[str, Any]] = []
    fewer = {"filters": arguments.filters} if arguments.filters else {}
    known = CANDIDATES[arguments.dataset]
    named = arguments.members.split(",") if arguments.members else list(known)
    if unknown := sorted(set(named) - set(known)):
        made.error(f"there are no candidates for {', '.join(unknown)}: choose from {', '.join(known)}.")
    runs = {
        member: way_to_try(member, known[member], shape)(member, split, known[member], device, memory, fewer)
        for member in named
    }
    facts = origin(device, shown_command("python", "benchmarks/family_choices.py"))
    for member, candidates in runs.items():
        last = time.monotonic()
        while time.monotonic() < deadline:
            try:
                options, accuracy = next(candidates)
            except StopIteration:
                break
            except (RuntimeError, ValueError, ArithmeticError) as error:  # the other member's turn comes all the same
                print(f"{member}: {str(error).splitlines()[0]}", flush=True)
                break
            now = time.monotonic()
            tried.append({"member": member, "options": options, "accuracy": accuracy, "seconds": now - last})
            print(f"{member:18} {100 * accuracy:6.2f} %  {now - last:5.1f} s  {options}", flush=True)
            last = now
            images = {"train": len(split[1]), "held_out": len(split[3])}
            asked = {"config": {"held": arguments.held, "limit": arguments.limit}, "seed": 0}
            result = {"dataset": arguments.dataset, "images": images, **asked, **facts, "tried": tried}
            result["chosen"] = chosen_for(tried, shape)
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        candidates.close()
    print(f"chosen: {chosen_for(tried, shape)}", flush=True)


if __name__ == "__main__":
    main()
