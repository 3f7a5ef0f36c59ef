"""A league in processes of their own: who fails, hangs or is too late costs its own row and nobody else's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import leagues
import pytest
import torch
from family_choices import chosen_for, differing, options_text, svm_candidates, whole_candidates
from league_lanes import Task, run_lanes
from leagues import choices_in, command_for, members_of, parser, run_league
from sklearn.datasets import load_digits

# Stands in for `rescnet compare`: a member's name says what happens to it.
PROGRAM = """
import json, sys, time
from pathlib import Path
rows = []
for model in sys.argv[1].split(","):
    if model.startswith("dies"):
        print("a last word"); sys.exit(3)
    if model.startswith("hangs"):
        time.sleep(60)
    error = {"fails": "it is too large", "breaks": "CUDA error: illegal memory access"}.get(model, "")
    row = dict(model=model, accuracy=None if error else 0.9, error=error, seconds=1.0, peak_memory=1, published=None)
    rows.append(row | dict(commit="abc", protocol="test images", train_images=5, device="a CPU", dataset="digits"))
    Path(sys.argv[2]).write_text(json.dumps(rows))
"""


def command(members, file):
    return [sys.executable, "-S", "-c", PROGRAM, ",".join(members), str(file)]


def run(folder, members, at_once=1, member_seconds=20.0, seconds=60.0, together=True):
    heard, processes = {}, []

    def counted(some, file):
        processes.append(list(some))
        return command(some, file)

    task = Task(counted, folder, lambda some: 1, lambda member, row, error: heard.__setitem__(member, (row, error)))
    run_lanes(task, members, at_once, member_seconds, seconds, together)
    return heard, processes


def test_one_that_dies_or_breaks_the_gpu_leaves_the_others_a_new_process(tmp_path):
    heard, _ = run(tmp_path, ["a", "fails", "dies", "b", "breaks", "c"])
    assert list(heard) == ["a", "fails", "dies", "b", "breaks", "c"]
    assert heard["dies"] == (None, "a last word")
    assert heard["fails"][0]["error"] == "it is too large"
    assert all(heard[name][0]["accuracy"] == 0.9 for name in "abc")


def test_one_that_takes_too_long_is_stopped(tmp_path):
    heard, processes = run(tmp_path, ["hangs", "a"], member_seconds=1.5)
    assert heard["hangs"] == (None, "it was stopped after 1.5 seconds") and heard["a"][0]["accuracy"] == 0.9
    assert len(processes) == 2


def test_those_the_time_is_over_for_have_no_row(tmp_path):
    heard, processes = run(tmp_path, ["a", "hangs", "b"], at_once=2, seconds=0.5, together=False)
    assert "hangs" not in heard and ["hangs"] in processes
    assert processes[:2] == [["a"], ["hangs"]]


@pytest.fixture
def league(tmp_path, monkeypatch):
    monkeypatch.setenv("RESCNET_COMMIT", "abc")
    monkeypatch.setattr(leagues, "command_for", lambda arguments, members, file: command(members, file))

    def go(models, *words):
        places = ["--parts", str(tmp_path / "parts"), "--out", str(tmp_path / "out")]
        return run_league(parser().parse_args(["digits", "--models", models, *places, *words]))

    return go, tmp_path / "out"


def test_a_league_goes_on_where_it_stopped_and_says_how_many_ran_at_once(league, capsys):
    go, out = league
    go("a,dies-1", "--at-once", "2", "--threads", "3")
    rows = json.loads((out / "league-digits.json").read_text())
    by_model = {row["model"]: row for row in rows}
    assert by_model["a"]["at_once"] == 2 and by_model["a"]["threads"] == 3
    failed = by_model["dies-1"]
    assert failed["accuracy"] is None and failed["error"] == "a last word" and failed["protocol"] == "test images"
    assert (out / "league-digits.svg").read_text().startswith("<svg")
    capsys.readouterr()
    assert [row["model"] for row in go("a,b")] == ["a", "b"]
    assert "1 rows are there, 1 members to run" in capsys.readouterr().out


def test_rows_of_another_commit_are_made_anew(league, monkeypatch, capsys):
    go, _ = league
    go("a")
    monkeypatch.setenv("RESCNET_COMMIT", "later")
    capsys.readouterr()
    go("a")
    assert "0 rows are there, 1 members to run" in capsys.readouterr().out


def test_rows_of_an_earlier_league_stay_unless_their_model_is_measured_anew(league, tmp_path):
    go, out = league
    go("a:x=1,b,c")
    (tmp_path / "earlier.json").write_text((out / "league-digits.json").read_text())
    assert [row["model"] for row in go("a,d", "--keep", str(tmp_path / "earlier.json"))] == ["a", "d"]
    rows = json.loads((out / "league-digits.json").read_text())
    assert [row["model"] for row in rows] == ["b", "c", "a", "d"]


def test_a_large_member_alone_has_more_memory_and_threads():
    arguments = parser().parse_args(["mnist", "--memory", "2GB", "--held-out", "0.1"])
    words = command_for(arguments, ["dfsnet-3:filters=2/2/4"], Path("rows"))
    assert words[words.index("--memory") + 1] == "6000000000" and words[words.index("--held-out") + 1] == "0.1"
    words = command_for(arguments, ["pcanet-plus"], Path("rows"))  # more threads only
    assert words[words.index("--memory") + 1] == "2000000000"
    words = command_for(arguments, ["dfsnet-3", "pcanet"], Path("rows"))
    assert (
        words[words.index("--memory") + 1] == "2000000000" and words[words.index("--models") + 1] == "dfsnet-3,pcanet"
    )


def test_choices_are_taken_from_their_file_if_it_is_there(tmp_path, capsys):
    assert choices_in(None) == choices_in(tmp_path / "none.json") == {}
    assert "none.json is not there" in capsys.readouterr().out
    (tmp_path / "some.json").write_text(json.dumps({"chosen": {"pcanet": "svm_cost=1"}}))
    assert choices_in(tmp_path / "some.json") == {"pcanet": "svm_cost=1"}


def test_all_are_there_longest_first_with_what_was_chosen():
    members = members_of("cifar10", "all", {"pcanet": "svm_cost=1"})
    assert members[0] == "dfsnet-3" and len(members) == 15
    assert "pcanet:svm_cost=1" in members and "rescnet:layers=60:block_stride=4" in members


def test_what_is_best_on_held_out_images_is_chosen_for_all_with_such_histograms():
    tried = [
        {"member": "pcanet", "options": {"normalisation": "l2", "svm_cost": 1.0}, "accuracy": 0.7},
        {"member": "pcanet", "options": {"normalisation": "l2", "svm_cost": 3.0}, "accuracy": 0.8},
        {"member": "osnet", "options": {"svm_cost": 0.5}, "accuracy": 0.6},
        {"member": "multilayer-pcanet", "options": {}, "accuracy": 0.8},
        {"member": "multilayer-pcanet", "options": {"ridge": 1.0}, "accuracy": 0.8},
        {"member": "ldanet", "options": {"bank": "lda; pca"}, "accuracy": 0.9},  # another network
        {"member": "ldanet", "options": {"within_ridge": 5.0}, "accuracy": 0.8},
        {"member": "ldanet", "options": {}, "accuracy": 0.7},
    ]
    chosen = chosen_for(tried, (3, 32, 32))
    assert chosen["pcanet"] == chosen["icanet"] == "svm_cost=3.0" and chosen["osnet"] == "svm_cost=0.5"
    assert chosen["ldanet"] == "within_ridge=5.0"
    assert not {"multilayer-pcanet", "dctnet", "pcanet-plus", "stacked-lda"} & set(chosen)
    assert differing("pcanet", (3, 32, 32), {"svm_cost": 1.0, "normalisation": "sqrt"}) == {"normalisation": "sqrt"}


def test_candidates_that_share_filters_are_what_they_are_alone():
    digits = load_digits()
    images, labels = torch.from_numpy(digits.images[:400, None]).float(), torch.from_numpy(digits.target[:400])
    split = (images[:300], labels[:300], images[300:], labels[300:])
    given = ("pcanet", split, [{"svm_cost": 1.0}, {"svm_cost": 1.0, "block_stride": 4}, {"svm_cost": 1e-6}])
    where = (torch.device("cpu"), 10**9, {"filters": (4, 4)})
    shared, alone = list(svm_candidates(*given, *where)), list(whole_candidates(*given, *where))
    assert [options for options, _ in shared] == given[2]
    for (_, one), (_, other) in zip(shared, alone, strict=True):
        assert one == pytest.approx(other, abs=0.02)  # Newton's solver and liblinear
    assert len({accuracy for _, accuracy in shared}) == 3


def test_the_beginning_of_a_deep_network_is_the_shallow_one():
    digits = load_digits()
    images, labels = torch.from_numpy(digits.images[:300, None]).float(), torch.from_numpy(digits.target[:300])
    split = (images[:200], labels[:200], images[200:], labels[200:])
    given = ("multilayer-pcanet", split, [{"ridge": 0.2}], torch.device("cpu"), 10**9)
    deep = list(whole_candidates(*given, {"filters": (6, 6, 6)}))
    shallow = list(whole_candidates(*given, {"filters": (6, 6)}))
    assert [options for options, _ in deep] == [{"ridge": 0.2}] + [
        {"ridge": 0.2, "filters": (6,) * depth} for depth in (2, 1)
    ]
    assert deep[1][1] == shallow[0][1] and deep[2] == shallow[1]
    assert options_text(deep[1][0]) == "ridge=0.2:filters=6/6"
