"""Tables and plots of the docs are made from results, and say so where there are none."""

from __future__ import annotations

import json

import pytest
from tables import (
    ablations,
    bench,
    equal_training,
    ladder,
    last_steps,
    league,
    neighbours,
    reproduction,
    results_files,
    side_by_side,
)

from rescnet.experiments.charts.style import COLOURS

ORIGIN = {"device": "a GPU", "versions": {"torch": "2"}, "commit": "abc", "command": "do it"}


@pytest.fixture
def results(tmp_path, monkeypatch):
    modules = ablations, bench, equal_training, ladder, last_steps, league, neighbours, results_files, reproduction
    for module in (*modules, side_by_side):
        for name, folder in (("RESULTS", tmp_path), ("DOCS", tmp_path)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, folder)
    return tmp_path


def test_without_results_the_docs_say_so(results):
    for rows in (
        bench.stages(),
        bench.heads(),
        side_by_side.table(),
        ablations.tables("explore-*.json"),
        reproduction.table("table3"),
        ladder.table(),
        last_steps.table(),
        equal_training.table(equal_training.comparisons()["cifar10"]),
        equal_training.table(equal_training.comparisons()["cifar100"]),
    ):
        assert len(rows) == 1 and rows[0].startswith("*Not run yet")
    assert neighbours.table()[0].startswith("*Not run yet") and league.tables()[0].startswith("*Not run yet")
    for module in (bench, side_by_side, reproduction, ladder, equal_training):
        assert module.pictures() == {}
    assert not any("·" in row for row in reproduction.both_halves())


def test_last_steps_are_rows_of_networks_alike(results):
    def run(name, seed, test, **options):
        readout = {"validation_accuracy": None, "test_accuracy": test}
        config = {"layers": 4, "stack_depth": 1, "seed": seed, **options}
        return ORIGIN | {
            "name": name, "seed": seed, "config": config, "images": {"train": 50}, "readout": readout, "seconds": 2.0,
        }  # fmt: skip

    steps = [run("cifar10", seed, 0.5) for seed in (0, 1)]
    today = [run("cifar10-augmented", seed, 0.7, grey_stack_every=2, loo_correction=True) for seed in (0, 1)]
    (results / "steps-cifar10-best.json").write_text(json.dumps(steps))
    (results / "beyond.json").write_text(json.dumps([*today, run("mnist", 0, 0.9)]))
    rows = last_steps.table()[2:4]
    assert rows[0] == "| 4 layers in stacks of 1 | 50 | 50.00 ± 0.00 | – | – | – | 2 | abc |"
    assert rows[1].startswith(
        "| 4 layers in stacks of 1, 2 of them grey, a second look | 50 | – | 70.00 ± 0.00 | – | 2 |"
    )


def test_a_ladder_reads_all_runs_at_one_depth_and_averages_seeds(results):
    def run(name, seed, *shares):
        records = [{"validation_accuracy": share, "test_accuracy": share / 2} for share in shares]
        return {"name": name, "seed": seed, "dataset": "x", "training_images": 9, "history": records, **ORIGIN}

    runs = [run("paper", 0, 0.5, 0.7), run("paper", 1, 0.6, 0.6), run("flips", 0, 0.9, 0.9, 0.1)]
    runs.append(run("roots", 0, 0.2) | {"kept": False})
    (results / "ladder-x.json").write_text(json.dumps(runs))
    assert ladder.rungs(runs) == [("paper", [60, 60], [30, 30], 2), ("flips", [90], [45], 2)]
    assert "| paper | 60.00 ± 0.00 | 30.00 ± 0.00 | 2 |" in ladder.table()
    (drawn,) = ladder.pictures().values()
    assert "90.00 %" in drawn and "+30.00" in drawn and "roots" not in drawn
    assert any("not kept" in row and "roots" in row for row in ladder.table())


def test_a_readout_is_what_a_rung_and_a_reading_came_to(results):
    """The layers before it are told too, where readings stand side by side."""

    def run(name, readout, **options):
        record = {"layer": 1, "train_accuracy": 0.9, "validation_accuracy": 0.5, "test_accuracy": 0.4}
        facts = {"name": name, "seed": 0, "dataset": "x", "training_images": 9, "history": [record], **ORIGIN}
        told = readout and {"validation_accuracy": readout, "test_accuracy": readout / 2, "seconds": 1}
        return facts | {"readout": told, "config": {"readout": "kernel" if readout else "heads", **options}}

    runs = [run("layers", None, width=1), run("kernel", 0.8, width=1), run("wide", 0.9, width=2)]
    (results / "ladder-x.json").write_text(json.dumps(runs))
    assert ladder.rungs(runs) == [("layers", [50], [40], 1), ("kernel", [80], [40], 1), ("wide", [90], [45], 1)]
    assert any("or with the readout" in row for row in ladder.table())
    _, _, titles, _, *rows = ablations.file_table(runs)
    assert "| held-out % with the readout | test % with it |" in titles
    assert [row.split(" | ")[0] for row in rows] == ["| wide", "| kernel", "| layers"]
    assert " | 90.00 | 45.00 | 1 | 50.00 | " in rows[0] and " | – | – | 1 | 50.00 | " in rows[2]


def test_a_seed_cut_short_counts_only_where_none_reached_the_common_depth():
    def run(name, seed, *held):
        told = {"train_accuracy": 0.9, "test_accuracy": 0.4}
        history = [{"layer": layer, "validation_accuracy": share, **told} for layer, share in enumerate(held, 1)]
        return {"name": name, "dataset": "x", "history": history, "config": {"seed": seed, "head": name}, **ORIGIN}

    runs = [run("lda", 0, 0.5, 0.6, 0.7, 0.8), run("lda", 1, 0.5, 0.6, 0.7, 0.6), run("lda", 2, 0.1)]
    _, _, _, _, ahead, cut = ablations.file_table([*runs, run("ridge", 0, 0.9)])
    assert "| 4 | 70.00 ± 14.14 | 90.00 ± 0.00 | 40.00 ± 0.00 | 40.00 ± 0.00 (4, 3) | 2 |" in ahead
    assert "| head ridge | 1 | – | – | – | 40.00 (1) | 1 |" in cut


def test_readings_are_compared_where_as_many_training_images_are_right(results):
    """A column is the mean over the layers near its training accuracy, however many they are; none: a dash."""

    def record(train, held):
        return {"train_accuracy": train, "validation_accuracy": held}

    history = [record(0.90, 0.7), record(0.9480, 0.80), record(0.9522, 0.82), record(0.9530, 0.1), record(0.98, None)]
    history += [record(0.9965, 0.84), record(0.9995, 0.1)]  # near 100 % layers are further apart than they seem
    runs = [{"name": "other", "history": []}, {"name": "gamma 3", "history": [record(0.95, None)]}]
    runs += [{"name": "gamma 3", "history": history}]  # the one with images held out
    (results / "explore-cifar10-deep.json").write_text(json.dumps(runs))
    hidden = [{"name": "gamma 1, alpha .2", "history": history}]
    (results / "explore-cifar10-more.json").write_text(json.dumps(hidden))
    rows = equal_training.table(equal_training.comparisons()["cifar10"])
    assert "| γ = 3 | – | – | 81.00 | – | – | – | – | 84.00 | 84.00 | 10.00 | 10.00 |" in rows
    assert "| γ = 1, α = 0.2 | – | – | 81.00 | – | – | – | – | 84.00 | 84.00 | 10.00 | 10.00 |" in rows
    (drawn,) = equal_training.pictures().values()
    assert "γ = 3" in drawn and "γ = 1, α = 0.2" not in drawn


@pytest.mark.parametrize("of", equal_training.comparisons().values(), ids=lambda of: of.dataset)
def test_every_reading_has_its_name_and_what_is_drawn_a_colour(of):
    names = [reading.name for reading in of.runs]
    assert len(set(names)) == len(names)
    assert 0 < sum(reading.drawn for reading in of.runs) <= len(COLOURS)


def test_another_reading_is_no_row_of_the_readme(results):
    """The preset's network is, at each depth, once with the most images it saw; a depth is told where it ended."""

    def entry(name, train, finished, layer=7):
        last = {"layer": layer, "train": 1.0, "held_out": None, "test": 0.5}
        run = {"name": name, "seed": 0, "config": {}, "images": {"train": train}, "summary": {"last": last}}
        return ORIGIN | run | {"finished": finished, "layers": layer, "seconds": 60.0, "history": []}

    runs = [entry("cifar10", 50, True), entry("cifar10-means", 60, True), entry("cifar100", 50, False)]
    runs.append(entry("mnist", 60, True, layer=231))
    runs.append(entry("tiny-imagenet", 60, True) | {"stopped": "no training image is wrong"})
    runs += [entry("cifar10-deeper", 45, True, layer=9), entry("cifar10-deeper", 50, True, layer=9)]
    (results / "table2.json").write_text(json.dumps(runs))
    rows = reproduction.summary_rows()
    deeper = rows.pop(1)
    assert len(rows) == 4
    assert "CIFAR-10, 1,400 layers (all 50 images, depth fixed before;" in deeper and "| 9 |" in deeper
    assert "TinyImageNet (all 60 images, until no training image was wrong;" in rows[3]
    assert "MNIST (all 60 images, to the paper's depth;" in rows[2]
    assert "CIFAR-10 (all 50 images, depth fixed before;" in rows[0] and "stopped" not in rows[0]
    assert "CIFAR-100 (all 50 images, to layer 7;" in rows[1] and "stopped before its end" in rows[1]


def test_side_by_side_looks_at_moments_and_at_held_out_images(results):
    epochs = [(4.0, 0.5, 0.50), (14.0, 0.7, 0.69), (30.0, 0.6, 0.72)]
    history = [
        {"epoch": n + 1, "seconds": s, "validation_accuracy": v, "test_accuracy": t}
        for n, (s, v, t) in enumerate(epochs)
    ]
    layers = [{"layer": 1, "seconds": 0.5, "test_accuracy": 0.4}, {"layer": 2, "seconds": 70, "test_accuracy": 0.6}]
    result = {
        "dataset": "cifar10",
        "images": {"train": 45_000},
        **ORIGIN,
        "neighbour": {"name": "resnet18", "recipe": {"flips": False}, "history": history},
        "ours": {"name": "ResCNet", "history": layers},
    }
    (results / "side-by-side-cifar10.json").write_text(json.dumps(result))
    rows = side_by_side.table()
    (theirs,) = [row for row in rows if row.startswith("| resnet18")]
    assert theirs == "| resnet18 | 50.00 | 69.00 | – | – | – | **69.00** (epoch 2, 14 s) | **72.00** (epoch 3, 30 s) |"
    (ours,) = [row for row in rows if row.startswith("| ResCNet")]
    assert ours == "| ResCNet | 40.00 | 40.00 | 40.00 | – | – | – | **60.00** (layer 2, 70 s) |"
    ((file, chart),) = side_by_side.pictures().items()
    assert file.name == "side-by-side.svg" and chart.count("<polyline") == 2


def test_a_stage_shows_its_seconds_and_how_near_the_ceiling_it_is(results):
    stage = {"seconds": 0.2, "least_seconds": 0.05}
    run = {
        "name": "cifar10 balanced",
        "features": 17150,
        "seconds": 0.21,
        "seconds_by_stage": {"pooling": 0.2, "new": 0.01},
        "stages": {"pooling": stage},
        "peak_memory": 12e9,
        "ceilings": {"float16": 7e14, "copy": 4e12},
        "protocol": "median",
        **ORIGIN,
    }
    (results / "bench-x.json").write_text(json.dumps([run]))
    rows = bench.stages()
    assert "| cifar10 balanced | 17,150 | **0.210 s** | 0.050 s | 0.200 (25 %) | 0.010 | 12.0 GB |" in rows
    assert any("float16 700 TFLOP/s" in row for row in rows)
    assert [file.name for file in bench.pictures()] == ["bench-x.svg"]


def explored(name, accuracies, seed=0, **config):
    shares = [{"train_accuracy": 0.9, "validation_accuracy": v, "test_accuracy": t} for v, t in accuracies]
    history = [{"layer": n + 1} | share for n, share in enumerate(shares)]
    config = {"ridge": 0.1, "head": "lda", "layers": 9, "seed": seed} | config
    return {"name": name, "dataset": "cifar10", "config": config, **ORIGIN, "history": history}


def test_readings_are_compared_at_equal_depth_and_seeds_averaged(results):
    runs = [
        explored("first", [(0.5, 0.4), (0.6, 0.5), (0.7, 0.6)]),
        explored("more ridge", [(0.5, 0.5), (0.8, 0.7), (0.2, 0.1), (0.9, 0.9)], ridge=1.0),
        explored("more ridge, seed 1", [(0.5, 0.5), (0.8, 0.7), (0.4, 0.3)], seed=1, ridge=1.0, layers=3),
        explored("failed", [(0.1, 0.1)], head="ridge"),
    ]
    (results / "explore-x.json").write_text(json.dumps(runs))
    rows = [row for row in ablations.tables("explore-*.json") if row.startswith("| ")]
    assert "held-out % at layer 3" in rows[0]
    assert rows[1] == "| first | the base: head lda, ridge 0.1 | 3 | 70.00 | 90.00 | 60.00 | 60.00 (3) | 1 |"
    shown = "| more ridge | ridge 1.0 | 4 | 30.00 ± 14.14 | 90.00 ± 0.00 | 20.00 ± 14.14 | 80.00 ± 14.14 (4, 2) | 2 |"
    assert rows[2] == shown
    assert rows[3] == "| failed | head ridge | 1 | – | – | – | 10.00 (1) | 1 |"


def test_both_halves_of_table_2_show_what_was_measured(results):
    at = {"layer": 5, "test": 0.86, "train": 1.0, "held_out": 0.86}
    ours = {"name": "cifar10", "dataset": "cifar10", "summary": {"last": at | {"test": 0.5}, "chosen": at}, **ORIGIN}
    ours |= {"config": {}, "images": {"train": 45_000, "validation": 5000}, "layers": 9, "seconds": 90, "seed": 0}
    history = [{"epoch": 1, "validation_accuracy": 0.9, "test_accuracy": 0.88}]
    history.append({"epoch": 2, "validation_accuracy": 0.8, "test_accuracy": 0.99})
    theirs = {"name": "resnet18", "dataset": "cifar10", "config": {"flips": False}, "history": history}
    (results / "table2.json").write_text(json.dumps([ours]))
    (results / "neighbour-resnet18-cifar10.json").write_text(json.dumps(theirs))
    rows = reproduction.both_halves()
    assert "| ResCNet | closed form | 87.54 · **86.00** | 64.9 | 99.52 | 44.37 |" in rows
    assert "| ResNet-18 | gradients | 86.29 · **88.00** | 59.15 | – | 43.02 |" in rows
    (row,) = reproduction.summary_rows()
    assert row.startswith(
        "| CIFAR-10 (depth chosen on 5,000 held-out images; the paper: 87.54 %) | 5 | **86.00 %** | 1.5 min"
    )
    everything = ours | {"images": {"train": 50_000}, "summary": {"last": at | {"test": 0.87}}}
    (results / "table2.json").write_text(json.dumps([everything, ours]))
    assert "| ResCNet | closed form | 87.54 · **87.00** | 64.9 | 99.52 | 44.37 |" in reproduction.both_halves()
    (row,) = reproduction.summary_rows()
    assert row.startswith("| CIFAR-10 (all 50,000 images, depth fixed before; the paper: 87.54 %) | 5 | **87.00 %** |")
    another = everything | {"seed": 1, "summary": {"last": at | {"layer": 7, "test": 0.88}}, "seconds": 150}
    another |= {"layers": 7, "finished": False}
    (results / "table2.json").write_text(json.dumps([another, ours, everything]))
    assert "| 87.54 · **87.50** ± 0.71 (2 seeds) | 64.9 |" in reproduction.both_halves()[2]
    (row,) = reproduction.summary_rows()
    assert "| 5, 7 | **87.50 %** ± 0.71 (2 seeds) | 2.0 min for 8 layers, stopped before its end |" in row


def league_row(model, accuracy, **others):
    row = {"model": model, "accuracy": accuracy, "deviation": None, "published": 0.7714, "seconds": 9, "cpu_seconds": 8}
    row |= {"peak_memory": 3e9, "model_bytes": 2e6, "dataset": "cifar10", "protocol": "test images", "error": ""}
    return row | ORIGIN | {"train_images": 50_000} | others


def test_leagues_show_the_best_first_and_go_into_table_2(results):
    rows = [
        league_row("pcanet:svm_cost=1", 0.765, at_once=8),
        league_row("ldanet", 0.78, command="compare --limit 500"),
        league_row("osnet", None, error="too slow"),
        league_row("pcanet", 0.76),  # not the first of its member: not the one to quote
    ]
    (results / "league-cifar10.json").write_text(json.dumps(rows))
    lines = league.tables()
    assert "8 members ran at once" in lines[2]
    assert [line.split(" |")[0] for line in lines[6:10]] == ["| ldanet", "| pcanet:svm_cost=1", "| pcanet", "| osnet"]
    assert "| 77.14 % |" in lines[7] and "77.14" not in lines[6] and "too slow" in lines[9]
    table = reproduction.both_halves()
    assert "| PCANet-2 | without gradients | 77.14 · **76.50** | 51.62 | 99.34 | 30.0 |" in table
    assert "| LDANet | without gradients | 78.33 | – | 99.38 | – |" in table


def test_a_league_of_several_devices_says_which(results):
    rows = [league_row("pcanet", 0.9), league_row("osnet", None, error="too slow", device="a CPU")]
    (results / "league-cifar10.json").write_text(json.dumps(rows))
    lines = league.tables()
    assert "on the devices in the last column" in lines[2] and lines[4].endswith("| commit | device |")
    assert lines[6].endswith("| a GPU |") and lines[7].endswith("| a CPU |")


def test_neighbours_are_found_wherever_they_were_run(results):
    config = {"flips": False, "batch": 512, "learning_rate": 0.1, "weight_decay": 5e-4}
    history = [
        {"epoch": n, "seconds": 2.0 * n, "validation_accuracy": v, "test_accuracy": v - 0.01}
        for n, v in ((1, 0.8), (2, 0.9), (3, 0.85))
    ]
    run = {"dataset": "cifar10", "config": config, "history": history, **ORIGIN}
    several = [run | {"name": "maxout"}, run | {"name": "network-in-network", "history": []}]
    (results / "neighbours-cifar10.json").write_text(json.dumps(several))
    beside = {"network": "resnet18", "recipe": config, "history": history[:1]}
    (results / "side-by-side-cifar10.json").write_text(
        json.dumps({"dataset": "cifar10", "neighbour": beside, **ORIGIN})
    )
    rows = [row for row in neighbours.table() if "cifar10 |" in row]
    assert len(rows) == 2 and "**89.00** (epoch 2) | 84.00 | 88.32 | 3 | 6 |" in rows[0] and "79.00" in rows[1]
    assert neighbours.measured("resnet18", "cifar10") == "79.00"
    assert neighbours.measured("network-in-network", "cifar10") is None
