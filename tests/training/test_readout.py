"""A network with a kernel readout on codes: its formula, its fit, its memory, and what it is fitted to."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from safetensors.torch import load as load_tensors
from train_network import train_network

from rescnet import ComputeOptions, Config, load, save
from rescnet.base.text import parse_bytes
from rescnet.config.grammars import Augmentation
from rescnet.model import Model
from rescnet.network.memory import readout_file_bytes
from rescnet.network.probabilities import probabilities
from rescnet.network.readout import KernelReadout
from rescnet.network.readout.kernel import sketches_in_chunks, sketches_of
from rescnet.numerics.code_kernel import Codes
from rescnet.saving.tensors import readout_from_bytes, readout_to_bytes
from rescnet.stages.augment import change_images, draw_changes, view_images
from rescnet.training.data import TrainingData
from rescnet.training.listener import Listener
from rescnet.training.readout.fit import CodeFit
from rescnet.training.readout.iterative import solve_iteratively
from rescnet.training.run import TrainingRun
from rescnet.training.trainer import Trainer
from rescnet.training.workers import Workers

DOUBLE = ComputeOptions(device="cpu", dtype="float64")
SINGLE = ComputeOptions(device="cpu")
TRAINING, VALIDATION, TEST = slice(120), slice(300, 340), slice(400, 440)
FLIP = {"augment": "flip"}
pytestmark = pytest.mark.usefixtures("one_cpu")


def config_of(**options):
    base = {"layers": 2, "filters": 4, "readout": "kernel", "stop_at_zero_error": False}
    return Config("digits", **base | options).complete()


def some(part):
    return IMAGES[part], LABELS[part]


def train_one(compute=DOUBLE, **options):
    return train_network(
        *some(TRAINING), config_of(**options), validation=some(VALIDATION), test=some(TEST), compute=compute
    )


@cache
def trained(**options):
    """Return a network of two layers, trained on 120 digits in float64, and its history."""
    return train_one(**options)


def mirrored(images):
    return images[..., ::-1].copy()


def layers_alone(network, images):
    return replace(network, readout=None).outputs(images)


def naive_codes(network, images):
    return naive_sketches(network, images) @ projection_of(network)


def projection_of(network):
    projection = network.readout.encoder.projection
    return projection.integers.double() * projection.steps.double()


@torch.inference_mode()
def naive_sketches(network, images):
    """Return the centred sketches of images (n, P), from loops over layers and features."""
    encoder, images, sketches = network.readout.encoder, torch.as_tensor(images), []
    for weights, step in zip(encoder.weights.double(), network.stack.steps(images), strict=True):
        sums = torch.zeros(len(images), encoder.sketch_size, dtype=torch.float64)
        for j in range(len(weights)):
            sums[:, j % encoder.sketch_size] += weights[j] * step.features[:, j]
        sketches.append(sums)
    return torch.cat(sketches, 1) - encoder.centre.double()


def naive_kernel(network, codes, sketches=None):
    """Return the kernel to the training images; new images also have a part that no component describes."""
    stored = network.readout.codes.integers.double() * network.readout.codes.steps.double()
    squares = torch.cdist(codes, stored) ** 2
    if sketches is not None:
        described = (codes / projection_of(network).norm(dim=0)).square().sum(1)
        squares += network.readout.encoder.outside * (sketches.square().sum(1) - described).clamp_min(0)[:, None]
    return torch.exp(-network.readout.scale * squares), stored


@pytest.mark.parametrize("with_metric", [False, True], ids=["given", "learned"])
@pytest.mark.parametrize("options", [{}, FLIP], ids=["plain", "mirrored"])
def test_the_readout_is_what_its_formula_says(options, with_metric, monkeypatch):
    """Training codes are the encoder's to rounding; coefficients solve the system; outputs add the kernel's."""
    monkeypatch.setattr("rescnet.training.readout.fit.METRIC_FROM", 120 if with_metric else 121)
    network, _ = train_network(*some(TRAINING), config_of(**options), compute=DOUBLE)
    images, new = IMAGES[TRAINING], IMAGES[TEST]

    def both(what, pictures):
        if not options:
            return what(network, pictures)
        return (what(network, pictures) + what(network, mirrored(pictures))) / 2

    kernel, stored = naive_kernel(network, both(naive_codes, new), both(naive_sketches, new))
    wanted = both(layers_alone, new) + kernel @ network.readout.coefficients
    torch.testing.assert_close(network.outputs(new), wanted, rtol=0, atol=1e-9)
    assert float((network.outputs(new) - layers_alone(network, new)).abs().max()) > 0.1
    steps = network.readout.codes.steps.double()
    assert bool(((both(naive_codes, images) - stored).abs() <= 0.51 * steps).all())
    system, _ = naive_kernel(network, stored)
    system += network.config.kernel_ridge * torch.eye(120)
    left = torch.eye(10, dtype=torch.float64)[torch.as_tensor(LABELS[TRAINING])]
    left -= both(layers_alone, images)
    torch.testing.assert_close(system @ network.readout.coefficients, left, rtol=0, atol=1e-7)
    median = float(torch.pdist(stored).square().median())
    assert network.readout.scale == pytest.approx(network.config.kernel_width / median)
    assert network.readout.mirrored == bool(options) and len(network.readout) == 120


@pytest.mark.parametrize("threads", [1, 3])
def test_images_that_pass_in_threads_have_the_same_sketches(threads):
    network, before = trained(**FLIP)[0], torch.get_num_threads()
    new, encoder = torch.as_tensor(IMAGES[TEST]), network.readout.encoder
    how = encoder.weights, encoder.sketch_size, True
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            wanted = sketches_of(network.stack, new, *how)
            found = sketches_in_chunks(network.stack, new, *how, 7)
    finally:
        torch.set_num_threads(before)
    for part, whole in zip(found, wanted, strict=True):
        assert part.dtype == whole.dtype
        torch.testing.assert_close(part, whole, rtol=0, atol=1e-6)


def test_mirror_images_are_equal_only_with_flips():
    new, network = IMAGES[TEST], trained(**FLIP)[0]
    torch.testing.assert_close(network.outputs(mirrored(new)), network.outputs(new), rtol=0, atol=1e-9)
    encoder = network.readout.encoder
    with torch.inference_mode():
        codes = [
            sketches_of(network.stack, torch.as_tensor(seen), encoder.weights, encoder.sketch_size, True)[0]
            for seen in (new, mirrored(new))
        ]
    torch.testing.assert_close(codes[0], codes[1], rtol=0, atol=1e-5)
    plain, _ = trained()
    assert float((plain.outputs(mirrored(new)) - plain.outputs(new)).abs().max()) > 0.1


HISTORIES = {
    "plain": {},
    "mirrored": FLIP,
    "views": {"test_views": "flip"},
    "mirrored, views": FLIP | {"test_views": "flip + shift 1"},
    "random copies": {"augment": "shift 1 + rotate 5"},
    "flips and random copies": {"augment": "flip + shift 1", "copies": 2},
    "copies": {"kernel_copies": "shift 1"},
    "mirrored, copies": FLIP | {"kernel_copies": "shift 1"},
    "correction": {"loo_correction": True},
    "few numbers": {"readout_size": 7},
}


@pytest.mark.parametrize("options", HISTORIES.values(), ids=HISTORIES)
def test_the_history_has_the_accuracies_of_predictions(options):
    network, history = trained(**options)
    for name, part in (("validation", VALIDATION), ("test", TEST)):
        right = float((network.predict_indices(IMAGES[part]).numpy() == LABELS[part]).mean())
        assert getattr(history.readout, f"{name}_accuracy") == right > 0.4
    assert (history.readout.layers, history.readout.steps, history.readout.residual) == (2, 0, 0.0)
    assert history.readout.ridge == network.readout.ridge == network.config.kernel_ridge
    size = network.readout.codes.integers.shape[1]
    assert size == options.get("readout_size", size) and len(network.readout.encoder.centre) <= 2 * 210


def test_predictions_are_the_mean_over_views():
    """Views that the kernel treats as equal are passed once."""
    new = torch.as_tensor(IMAGES[TEST][:3])
    for options in ({}, FLIP):
        network, _ = trained(**options)
        averaged = network.averaged_over("flip + shift 1")
        outputs = [network.outputs(view_images(new, view)) for view in averaged.config.views]
        torch.testing.assert_close(averaged.outputs(new), torch.stack(outputs).mean(0), rtol=0, atol=1e-9)


def fitted_by_hand(**options):
    """Return a fit whose layers are learned, and that has solved nothing yet."""
    config = config_of(**options)
    data = TrainingData.of(*some(TRAINING), some(VALIDATION), some(TEST))
    trainer = Trainer(config, data, SINGLE, Workers())
    for _ in range(config.layers):
        trainer.add_layer()
    return CodeFit(trainer.network, data, trainer.collected())


@torch.inference_mode()
@pytest.mark.parametrize("options", [{}, FLIP, {"kernel_copies": "shift 1"}], ids=["plain", "mirrored", "copies"])
def test_sketches_collected_in_training_are_those_of_a_second_pass(options):
    fit = fitted_by_hand(**options)
    assert "training" in fit._rows and ("test" in fit._rows) == (options != FLIP)
    readout = fit.solve()[0]
    (sketches, output), right = fit._training_images(), [fit.accuracy(name, readout) for name in ("validation", "test")]
    fit._rows = {}
    again = fit._training_images()
    assert len(sketches) == len(readout)
    torch.testing.assert_close(sketches, again[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(output, again[1], rtol=0, atol=1e-5)
    assert right == [fit.accuracy(name, readout) for name in ("validation", "test")]


def test_copies_are_training_images_too():
    network, _ = trained(kernel_copies="shift 1")
    changes = draw_changes(Augmentation.parse("shift 1"), 120, 1, 1, network.config.seed)[:, 1]
    images = torch.as_tensor(IMAGES[TRAINING])
    both = torch.stack([images, change_images(images, changes)], 1).flatten(0, 1)
    stored = network.readout.codes.values(torch.float64)
    assert len(stored) == 240
    assert bool(((naive_codes(network, both) - stored).abs() <= 0.51 * network.readout.codes.steps).all())
    several, _ = trained(kernel_copies="3 shift 1", loo_correction=True)
    first = several.readout.codes.values(torch.float64)[::4]
    assert len(several.readout) == 480
    assert bool(((naive_codes(several, images) - first).abs() <= 0.51 * several.readout.codes.steps).all())


def test_new_images_are_as_far_as_training_images_are_from_each_other():
    """Components that are as many as the images describe only these; with fewer, both lose the same part."""
    network, _ = train_network(*some(slice(30)), config_of(filters=12), compute=DOUBLE)
    encoder = network.readout.encoder
    assert encoder.outside > 0 and trained(readout_size=7)[0].readout.encoder.outside == 0
    sketches = naive_sketches(network, IMAGES[TEST])
    apart = []
    for each in (encoder, replace(encoder, outside=0.0)):
        codes = each.codes(sketches + encoder.centre, projection_of(network))
        stored = Codes.of(network.readout.codes.values(torch.float64))
        apart.append(float((codes.norms[:, None] + stored.norms - 2 * codes.values @ stored.values.T).median()))
    known = 1 / network.readout.scale * network.config.kernel_width
    assert 0.8 * known < apart[0] < 1.25 * known and apart[1] < 0.9 * apart[0]


def test_the_temperature_suits_images_that_were_left_out():
    network, _ = trained()
    outputs, labels = network.outputs(IMAGES[TEST]), torch.as_tensor(LABELS[TEST])

    def loss(temperature):
        return float(-probabilities(outputs, 1.0, temperature)[range(len(labels)), labels].log().mean())

    chosen = network.readout.temperature
    assert loss(chosen) < min(loss(chosen * 3), loss(chosen / 3))
    assert torch.equal(network.probabilities(outputs), probabilities(outputs, 1.0, chosen))


def test_patience_fits_it_to_the_best_depth(tmp_path):
    """It is the readout of a run that ends there, and its file says so."""
    network, history = trained(layers=12, patience=1)
    depth = network.used_layers
    assert history.readout.layers == depth < len(network.layers)
    assert len(network.readout.encoder.weights) == depth
    shorter, _ = trained(layers=depth)
    torch.testing.assert_close(network.outputs(IMAGES[TEST]), shorter.outputs(IMAGES[TEST]), rtol=0, atol=1e-6)
    assert network.first_layers(depth).readout is network.readout
    save(Model(network, history, tuple("0123456789"), {}), tmp_path / "m")
    assert torch.equal(load(tmp_path / "m").network.outputs(IMAGES[TEST]), network.outputs(IMAGES[TEST]))
    assert network.first_layers(len(network.layers)).readout is None
    torch.testing.assert_close(
        network.outputs(IMAGES[TEST], layers=1), layers_alone(network.first_layers(1), IMAGES[TEST])
    )


def test_conjugate_gradients_learn_the_same_metric(monkeypatch):
    plain = trained()[0].outputs(IMAGES[TEST])
    monkeypatch.setattr("rescnet.training.readout.fit.METRIC_FROM", 100)
    wanted = train_one()[0].outputs(IMAGES[TEST])
    monkeypatch.setattr("rescnet.training.readout.fit.exact_bytes", lambda *_: 2**60)
    network, history = train_one()
    torch.testing.assert_close(network.outputs(IMAGES[TEST]), wanted, rtol=0, atol=0.02)
    assert history.readout.steps > 0 and float((wanted - plain).abs().max()) > 0.02


@pytest.mark.parametrize("options", [{}, {"loo_correction": True}, FLIP | {"kernel_copies": "shift 1"}], ids=str)
def test_conjugate_gradients_predict_the_same(options, monkeypatch):
    wanted = trained(**options)[0].outputs(IMAGES[TEST])
    monkeypatch.setattr("rescnet.training.readout.fit.exact_bytes", lambda *_: 2**60)
    steps = []

    class Steps(Listener):
        def readout_step(self, number, residual, solution):
            steps.append((number, residual))

    network, history = train_network(*some(TRAINING), config_of(**options), compute=DOUBLE, listener=Steps())
    found, record = network.outputs(IMAGES[TEST]), history.readout
    sure = wanted.topk(2, 1).values.diff(dim=1)[:, 0].abs() > 0.02
    assert bool((found.argmax(1) == wanted.argmax(1))[sure].all()) and float(sure.double().mean()) > 0.8
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.1 if options.get("loo_correction") else 0.01)
    assert record.steps == len(steps) > 0 and steps[-1] == (record.steps, record.residual) and record.residual < 1e-3


def test_a_budget_decides_how_it_is_solved(monkeypatch):
    monkeypatch.setattr("rescnet.training.readout.iterative.LEAST_LANDMARKS", 8)
    fit = fitted_by_hand(loo_correction=True)
    with torch.inference_mode():
        assert fit.solve()[1].steps == 0
        fit.budget = 300_000
        assert fit.solve()[1].steps > 0
        fit.budget = 2000
        with pytest.raises(
            ValueError, match=r"a readout of 120 images, got 2 kB\. Allow more, or use a smaller"
        ) as error:
            fit.solve()
        fit.budget = 1000 + parse_bytes(re.search(r"max_memory must be at least (\S+ \S+) to", str(error.value))[1])
        assert fit.solve()[1].steps > 0  # the least memory is enough
    assert "\n" not in str(error.value)


def test_single_precision_and_half_come_near_double():
    wanted = trained()[0].outputs(IMAGES[TEST])
    for precision in ("exact", "balanced"):
        network, history = train_one(replace(SINGLE, precision=precision))
        found = network.outputs(IMAGES[TEST])
        assert found.dtype == torch.float32
        assert float((found.argmax(1) == wanted.argmax(1)).double().mean()) > 0.9
        assert history.readout.test_accuracy == float((found.argmax(1).numpy() == LABELS[TEST]).mean())


SMALL_SETS = {
    "one image per class": (IMAGES[:10], LABELS[:10]),
    "two images": (IMAGES[:2], LABELS[:2]),
    "duplicates": (np.repeat(IMAGES[:10], 4, 0), np.repeat(LABELS[:10], 4)),
    "equal images": (np.repeat(IMAGES[:1], 12, 0), np.arange(12) % 3),
    "constant images": (np.full((12, 1, 8, 8), 7, np.uint8), np.arange(12) % 3),
}


@pytest.mark.parametrize(
    ("options", "cg"),
    [
        ({}, False),
        ({}, True),
        (FLIP | {"kernel_ridge": 0.0, "loo_correction": True}, False),
        ({"kernel_ridge": 0.0}, True),
    ],
    ids=["factor", "conjugate gradients", "mirrored, no ridge", "conjugate gradients, no ridge"],
)
@pytest.mark.filterwarnings("ignore:images should differ")
@pytest.mark.parametrize("images", SMALL_SETS.values(), ids=SMALL_SETS)
def test_few_equal_and_constant_images_are_sound(images, options, cg, tmp_path, monkeypatch):
    if cg:
        monkeypatch.setattr("rescnet.training.readout.fit.exact_bytes", lambda *_: 2**60)
    config = config_of(readout_size=100_000, **options)
    network, history = train_network(*images, config, test=some(TEST) if len(images[0]) == 10 else None, compute=SINGLE)
    outputs = network.outputs(np.concatenate([images[0], IMAGES[TEST]]))
    assert bool(outputs.isfinite().all()) and network.readout.codes.integers.shape[1] < len(images[0])
    if len(images[0]) == 12:  # images that do not differ tell nothing
        assert history.left_out is None
    if len(images[0]) in (2, 10, 40):
        assert (outputs[: len(images[0])].argmax(1).numpy() == images[1]).all()
    names = tuple(map(str, range(network.classes)))
    save(Model(network, history, names, {}), tmp_path / "m")
    assert torch.equal(load(tmp_path / "m").network.outputs(images[0]), network.outputs(images[0]))


@pytest.mark.parametrize("options", [{}, {"loo_correction": True} | FLIP, {"kernel_copies": "shift 1"}], ids=str)
def test_a_file_gives_the_same_bits_and_holds_no_image(options, tmp_path):
    network, history = trained(**options)
    save(Model(network, history, tuple("0123456789"), {}), tmp_path / "m")
    read, new = load(tmp_path / "m").network, IMAGES[TEST]
    assert torch.equal(read.outputs(new), network.outputs(new)) and isinstance(read.readout, KernelReadout)
    data = (tmp_path / "m" / "readout.safetensors").read_bytes()
    tensors = load_tensors(data)
    rows = len(read.readout)
    assert not any(tensor.ndim > 2 or tensor.shape == (rows, 64) for tensor in tensors.values())
    size = tensors["codes"].shape[1]
    numbers = tensors["encoder.centre"].numel()
    wanted = size * (rows + numbers) + tensors["encoder.weights"].nbytes + tensors["coefficients"].nbytes
    correction = sum(tensor.nbytes for name, tensor in tensors.items() if name.startswith("loo_correction"))
    assert wanted <= len(data) - correction < wanted + 12 * size + 4 * numbers + 2500
    assert readout_file_bytes(network.config, (1, 8, 8), 10, rows) == pytest.approx(len(data) - correction, rel=0.4)
    for image in IMAGES[TRAINING][:20]:
        assert image.tobytes() not in data


def test_a_readout_is_read_whatever_number_of_layers_is_planned(monkeypatch):
    """A resumed run plans more, with shorter sketches, and keeps its readout until it has another."""
    for name, value in (("TOTAL", 100), ("LEAST", 8)):
        monkeypatch.setattr(f"rescnet.numerics.sketch.{name}", value)
    network, _ = train_one()
    assert network.readout.encoder.sketch_size == 50
    more = replace(network.config, layers=9)
    read = readout_from_bytes(readout_to_bytes(network.readout), "readout", more, (1, 8, 8), 10, 2)
    assert torch.equal(replace(network, readout=read).outputs(IMAGES[TEST]), network.outputs(IMAGES[TEST]))


@pytest.mark.parametrize("options", [{}, FLIP, {"augment": "shift 1", "kernel_copies": "rotate 5"}], ids=str)
def test_a_run_killed_before_the_readout_is_resumed_to_the_same(options):
    """The readout and its record are those of an uninterrupted run."""
    wanted, whole = trained(**options)
    for layers in (2,) if options else (1, 2):
        run = TrainingRun(*some(TRAINING), config_of(**options), compute=DOUBLE)
        for record in run:
            if record.layer == layers:
                break
        network, history = train_network(
            *some(TRAINING), config_of(**options), test=some(TEST), compute=DOUBLE, start=(run.network, run.history)
        )
        for found, known in zip(network.readout.learned(), wanted.readout.learned(), strict=True):
            assert torch.equal(found, known)
        assert torch.equal(network.outputs(IMAGES[TEST]), wanted.outputs(IMAGES[TEST]))
        assert history.readout.test_accuracy == whole.readout.test_accuracy


@torch.inference_mode()
@pytest.mark.parametrize("options", [{}, {"loo_correction": True}, {"kernel_copies": "shift 1"}], ids=str)
def test_an_interrupted_fit_with_a_metric_continues_in_its_solution(options, monkeypatch):
    """The first of the two solutions is not repeated; a start that does not fit is ignored."""
    solved = []

    def counted(*words):
        solved.append(solve_iteratively(*words))
        return solved[-1]

    monkeypatch.setattr("rescnet.training.readout.fit.METRIC_FROM", 100)
    monkeypatch.setattr("rescnet.training.readout.fit.solve_iteratively", counted)
    monkeypatch.setattr("rescnet.training.readout.iterative.LANDMARKS", (10, 10))
    monkeypatch.setattr("rescnet.training.readout.iterative.LEAST_LANDMARKS", 8)
    fit, heard = fitted_by_hand(**options), []
    exact, fit.budget = fit.budget, 300_000 * fit.config.rows_per_image

    def steps_of(start=None):
        """Fit from a start; return the readout, the steps of each solution, and the accuracy."""
        solved.clear()
        heard.clear()
        readout, _, accuracy = fit.solve(lambda *step: heard.append(step[2].clone()), start)
        return readout, [found.steps for found in solved], accuracy

    wanted, (first, second), accuracy = steps_of()
    starts = heard.copy()
    assert len(starts) == first + second and min(first, second) > 4
    for step in (first - 2, first, first + 1, first + second - 2, first + second):
        left = [max(0, first - step), min(second, first + second - step)]
        found, steps, again = steps_of(starts[step - 1])
        # the search starts again, so steps differ a little; how much depends on the processor's rounding
        most = [few + whole // 3 for few, whole in zip(left, (first, second), strict=True)]
        assert all(taken <= few for taken, few in zip(steps, most, strict=True)), (step, steps)
        assert step <= first or steps[0] == 0
        outputs = (readout.outputs(fit.network.stack, torch.as_tensor(IMAGES[TEST])) for readout in (found, wanted))
        torch.testing.assert_close(*outputs, rtol=0, atol=0.01)
        assert again == accuracy
    for other in (starts[-1][:, :9], starts[-1][1:]):  # of fewer classes, and of fewer images
        assert steps_of(other)[1] == [first, second]
    fit.budget = exact
    for found, known in zip(steps_of(starts[-1])[0].learned(), steps_of()[0].learned(), strict=True):
        assert torch.equal(found, known) and not solved


def test_predictions_do_not_depend_on_chunks(monkeypatch):
    for options in ({}, FLIP | {"loo_correction": True}):
        network, new = trained(**options)[0], IMAGES[TEST][:7]
        wanted = network.outputs(new)
        torch.testing.assert_close(
            torch.cat([network.outputs(part) for part in np.split(new, [2, 5])]), wanted, rtol=0, atol=1e-9
        )
        monkeypatch.setattr("rescnet.network.readout.kernel.ENTRIES", 400)
        torch.testing.assert_close(network.outputs(new), wanted, rtol=0, atol=1e-9)


def test_what_is_cached_is_no_part_of_the_model():
    network, new = trained()[0], IMAGES[TEST][:5]
    fresh = replace(network, readout=replace(network.readout))
    size = len(pickle.dumps(fresh.readout))
    wanted = fresh.outputs(new)
    first = fresh.readout._ready
    assert torch.equal(fresh.outputs(new), wanted) and fresh.readout._ready is first is not None
    read = pickle.loads(pickle.dumps(fresh.readout))
    assert len(pickle.dumps(fresh.readout)) == size and read._ready is None
    assert torch.equal(replace(network, readout=read).outputs(new), wanted)
    layers = [layer.to(torch.device("cpu"), torch.float32) for layer in network.layers]
    single = replace(fresh, stack=replace(network.stack, layers=layers))
    torch.testing.assert_close(single.outputs(new).double(), wanted, rtol=0, atol=1e-3)
    assert torch.equal(fresh.outputs(new), wanted)


def test_the_readout_makes_a_network_better():
    network, _ = trained()
    images, labels = some(slice(400, 800))
    right = float((network.predict_indices(images).numpy() == labels).mean())
    assert right > float((layers_alone(network, images).argmax(1).numpy() == labels).mean())


def test_heads_alone_have_no_readout():
    network, history = train_network(*some(TRAINING), config_of(readout="heads"), compute=DOUBLE)
    assert network.readout is None and history.readout is None
    torch.testing.assert_close(network.outputs(IMAGES[TEST]), layers_alone(trained()[0], IMAGES[TEST]))
    with pytest.raises(ValueError, match="readout_size must be used with readout 'kernel', got readout 'heads'"):
        Config("digits", readout_size=100).complete()
    with pytest.raises(ValueError, match="readout_size must be finite and at least 1, got 0"):
        config_of(readout_size=0)
