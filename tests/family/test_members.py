"""Every member: its preset, its options, and its accuracy on small data."""

from __future__ import annotations

import pickle
import re
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from one_cpu import one_thread_only
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from rescnet import Config, NetworkConfig, ResCNetClassifier
from rescnet.config.option import options_of
from rescnet.family import FamilyClassifier, FamilyConfig, make_member, member_names
from rescnet.stages.filters import BankOptions, find_bank

FAMILY = {
    "pcanet", "ldanet", "randnet", "dctnet", "ccanet", "icanet", "osnet", "dccnet", "dfsnet", "dfsnet-3", "pcanet-plus",
    "pcanet-ii", "multilayer-pcanet", "stacked-lda",
}  # fmt: skip
FEW = {"filters": (4, 4)}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with one_thread_only():
        yield


@pytest.fixture(scope="module")
def digits():
    """Four classes of digits: 360 training images, 120 test images."""
    images, labels = load_digits(return_X_y=True)
    chosen = labels < 4
    images, labels = images[chosen].reshape(-1, 8, 8), labels[chosen]
    return (images[:360], labels[:360]), (images[360:480], labels[360:480])


@parametrize_with_checks([FamilyClassifier("pcanet", options={"filters": (2, 2)})])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_all_members_have_a_preset():
    assert set(member_names()) == FAMILY


@pytest.mark.parametrize("name", sorted(FAMILY))
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 16), (3, 20, 24), (1, 28, 28), (3, 32, 32)])
def test_every_preset_suits_every_kind_of_image(name, shape):
    config = make_member(name, shape)
    config.check_images(shape)
    assert FamilyConfig(**config.to_dict()) == config


def test_sizes_that_do_not_fit_are_those_of_small_images():
    assert make_member("pcanet", (3, 16, 16)) == make_member("pcanet", (3, 8, 8))
    assert make_member("multilayer-pcanet", (3, 20, 20)) == make_member("multilayer-pcanet", (3, 8, 8))


def test_pcanet_has_its_papers_sizes():
    mnist, cifar = make_member("pcanet", (1, 28, 28)), make_member("pcanet", (3, 32, 32))
    assert (mnist.filters, mnist.filter_sizes, mnist.block_size, mnist.block_stride) == ((8, 8), (7,), 7, 4)
    assert mnist.pyramid_of((28, 28)) is None
    assert mnist.features((1, 28, 28), 2) == 8 * 36 * 256
    assert (cifar.filters, cifar.filter_sizes, cifar.block_size, cifar.block_stride) == ((40, 8), (5,), 8, 4)
    assert cifar.features((3, 32, 32), 2) == 215_040


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILY))
def test_every_member_learns(digits, name):
    (x, y), (x_test, y_test) = digits
    classifier = FamilyClassifier(name, random_state=0).fit(x, y)
    assert classifier.score(x_test, y_test) > 0.93
    scores = classifier.decision_function(x_test)
    np.testing.assert_array_equal(scores.argmax(1), classifier.predict(x_test))
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.decision_function(x_test), scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pcanet", "ldanet", "ccanet", "pcanet-plus", "multilayer-pcanet", "stacked-lda"])
def test_members_accept_colour_images_in_any_layout(blobs, name):
    images, labels = blobs
    options = {"multilayer-pcanet": {"filters": (8, 8)}, "stacked-lda": {"discriminants": 300}}.get(name)
    classifier = FamilyClassifier(name, options=options, random_state=0).fit(images[:180], labels[:180])
    assert classifier.score(images[180:], labels[180:]) > 0.6  # chance, and one LDA of the pixels: 0.17
    last = images.transpose(0, 2, 3, 1)
    other = FamilyClassifier(name, options=options, random_state=0).fit(last[:180], labels[:180])
    np.testing.assert_allclose(
        other.decision_function(last[180:]), classifier.decision_function(images[180:]), atol=1e-6
    )


def test_labels_may_be_anything_and_two_classes_have_one_score(digits):
    (x, y), (x_test, _) = digits
    two = y < 2
    classifier = FamilyClassifier(options=FEW).fit(x[two], np.array(["no", "yes"])[y[two]])
    scores = classifier.decision_function(x_test)
    assert scores.ndim == 1
    np.testing.assert_array_equal(classifier.predict(x_test), np.array(["no", "yes"])[(scores > 0).astype(int)])


def test_options_replace_the_presets_and_survive_cloning():
    classifier = clone(FamilyClassifier("dctnet", options={"bank": "dct; 3 pca + 1 dct", **FEW}))
    config = make_member(classifier.member, (1, 8, 8), classifier.options)
    assert config.normalisation == "tied-rank"
    assert [config.bank_of(stage) for stage in (1, 2)] == ["dct", "3 pca + 1 dct"]


@pytest.mark.parametrize(
    ("member", "options", "message"),
    [
        ("pcanett", None, "member must be one of ccanet, .*, got 'pcanett'. Did you mean 'pcanet'"),
        ("pcanet", {"filterz": 3}, "option names must be known, got 'filterz' in options. Did you mean 'filters'"),
        ("pcanet", 3, "options must be a dict, .* or None, got 3"),
        ("pcanet", {"filters": ()}, "filters must not be empty. Use e.g. 8, 8"),
        ("pcanet", {"filters": (8, 0)}, "filters must be finite and at least 1, got 0"),
        ("pcanet", {"filters": (4, 20)}, "filters must be at most 16 in the last stage, got 20. Set bits for more"),
        ("pcanet", {"bits": 5}, "bits must divide the 64 maps of the last stage, got 5"),
        ("pcanet", {"filter_sizes": (9,)}, "filter_sizes must be at most 8 on images of 8×8, got 9"),
        ("pcanet", {"block_size": 9}, "block_size must be at most 8 on images of 8×8, got 9"),
        ("pcanet", {"block_stride": 0}, "block_stride must be between 1 and 100000, got 0"),
        ("pcanet", {"classifier": "lda"}, "classifier must be 'svm' with output 'histogram', got 'lda'"),
        ("pcanet", {"bank": "pcb"}, "bank must be one of .*, got 'pcb'. Did you mean 'pca'"),
        (
            "pcanet",
            {"filters": (9, 9), "filter_sizes": (3,), "bank": "dct"},
            "at most 8 DCT filters .*, got 9",
        ),
        ("stacked-lda", {"output": "histogram"}, "classifier must be 'svm' with output 'histogram', got 'stacked-lda'"),
        ("pcanet", {"output": "pixels"}, "output must be 'pixels' with classifier 'stacked-lda' and only then"),
        ("multilayer-pcanet", {"classifier": "svm"}, "classifier must be 'lda' with reads 'all', got 'svm'"),
        ("pcanet", {"pyramid": (9,)}, "pyramid must be at most 3 on a grid of 3×3 blocks, got 9"),
    ],
)
def test_bad_settings_are_refused_in_one_line(digits, member, options, message):
    with pytest.raises(ValueError, match=message) as error:
        FamilyClassifier(member, options=options).fit(*digits[0])
    assert "\n" not in str(error.value)


def test_every_option_has_a_help_text():
    for entry in fields(FamilyConfig):
        assert entry.metadata["help"][0].isupper(), entry.name
        assert entry.metadata["help"].endswith("."), entry.name


def test_options_of_the_network_have_its_help_and_limits():
    """Only the lowest value and the help of ``pyramid`` differ: 0 means no pyramid."""
    network = options_of(NetworkConfig)
    own = {"bank", "filters"}  # one per stage
    shared = {entry.name: entry for entry in fields(FamilyConfig) if entry.name in network and entry.name not in own}
    assert len(shared) == 12
    for name, entry in shared.items():
        for fact in ("help", "low", "high"):
            same = entry.metadata[fact] == network[name].metadata[fact]
            assert same or (name == "pyramid" and fact in ("help", "low")), (name, fact)


def test_stacked_lda_is_better_than_one_lda():
    """Posteriors of small discriminants are not linear in the pixels, so the second layer adds something."""
    rng = np.random.default_rng(0)
    angle, ring = rng.uniform(0, 2 * np.pi, 600), np.arange(600) % 2
    points = (1 + 2 * ring[:, None]) * np.stack([np.cos(angle), np.sin(angle)], 1)  # a ring around a ring
    points = np.hstack([points, rng.normal(0, 0.1, (600, 2))])
    options = {"discriminants": 200, "negatives": 8, "tolerance": 0.5}
    classifier = FamilyClassifier("stacked-lda", options=options, random_state=0).fit(points[:400], ring[:400])
    assert classifier.score(points[400:], ring[400:]) > 0.9  # a single LDA: one half


def test_a_registered_bank_works_in_rescnet_and_the_family(tmp_path, monkeypatch, digits):
    page = (Path(__file__).parents[2] / "docs" / "family.md").read_text()
    code = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "register_bank" in block)
    assert len(code.strip().splitlines()) <= 10
    (tmp_path / "my_bank.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"bank must be one of .*, got 'checkerboard'"):
        make_member("pcanet", (1, 8, 8), {"bank": "checkerboard"})
    __import__("my_bank")
    try:
        (x, y), _ = digits
        board = find_bank("checkerboard")
        member = FamilyClassifier("pcanet", options={"bank": "1 checkerboard + 3 pca; pca", **FEW}).fit(x, y)
        grey = type("Source", (), {"size": 3, "channels": 1})
        expected = board(grey, 1, None, BankOptions()).weights.view(1, 3, 3)
        expected = expected - expected.mean()
        torch.testing.assert_close(member.network_.stages[0].weights[0], expected)
        network = (
            ResCNetClassifier(2, config=Config("paper", bank="pca; checkerboard + pca", filters=4), random_state=0)
            .fit(x, y)
            .model_.network
        )
        assert float(network.layers[1].weights[0].abs().std()) < 1e-12
    finally:
        from rescnet.config.grammars import BANKS

        BANKS.pop("checkerboard")
        sys.modules.pop("my_bank")
