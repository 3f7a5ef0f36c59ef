"""A network with a kernel readout, against scikit-learn's kernel ridge regression on the features of all layers."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from scipy.spatial.distance import pdist
from sklearn.kernel_ridge import KernelRidge

from rescnet import ComputeOptions, make_config, train
from rescnet.config.grammars import Augmentation
from rescnet.network.memory import RunSizes, image_bytes, readout_bytes
from rescnet.network.readout import fit_kernel
from rescnet.network.readout.features import LayerwisePass, batch_size, cache_bytes
from rescnet.network.readout.kernel import _factor
from rescnet.stages.augment import change_images, draw_changes, view_images
from rescnet.training.data import TrainingData
from rescnet.training.memory_plan import Machine, check_readout_fits

DOUBLE = ComputeOptions(dtype="float64")
TRAINING, VALIDATION, TEST = slice(300), slice(300, 400), slice(400, 520)
FEW = {"filters": 3}  # so few that the layers alone are wrong on training images
pytestmark = [pytest.mark.usefixtures("one_cpu"), pytest.mark.slow]


def config_of(**options):
    return make_config("digits", **{"layers": 3, "filters": 8, "readout": "kernel"} | options)


@cache
def trained(**options):
    """Return a network of three layers, trained on 300 digits, and its history."""
    held_out = {"validation": some(VALIDATION), "test": some(TEST)}
    return train(*some(TRAINING), config_of(**options), **held_out, compute=DOUBLE)


def some(part):
    return IMAGES[part], LABELS[part]


def mirrored(images):
    return images[..., ::-1].copy()


def layers_alone(network, images):
    """Return Ỹ of the layers."""
    return replace(network, readout=None).outputs(images).numpy()


@torch.inference_mode()
def all_features(network, images):
    """Return the features of all layers side by side, shape (n, layers·D)."""
    images, maps, found = torch.as_tensor(images), None, []
    for layer in network.layers:
        maps = network.stack.maps(layer, maps, images)
        found.append(network.stack.features(maps).numpy())
    return np.concatenate(found, axis=1)


def standardised(known, *others):
    """Return features as they are in units of those of the known images; constant ones are zero."""
    mean, deviation = known.mean(0), known.std(0)
    scale = np.where(deviation > 1e-9 * np.abs(mean), 1 / np.maximum(deviation, 1e-300), 0)
    return [(features - mean) * scale for features in (known, *others)]


def scale_of(config, known):
    """Return s: the width over the median squared distance, the lower one of an even number of pairs."""
    return config.kernel_width / np.quantile(pdist(known, "sqeuclidean"), 0.5, method="lower")


def residual_of(output, labels):
    return np.eye(10)[labels] - output


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel_width": 3.0, "kernel_ridge": 0.2},
        {"stack_depth": 2, "rectifier": "both", "head": "ridge"},
    ],
    ids=["default", "width and ridge", "stacks"],
)
def test_the_readout_is_kernel_ridge_regression_of_what_the_layers_leave(options):
    """Its kernel is Gaussian in the standardised features of all layers together."""
    network, _ = trained(**options)
    (images, labels), (new, _) = some(TRAINING), some(TEST)
    known, features = standardised(all_features(network, images), all_features(network, new))
    scale = scale_of(network.config, known)
    assert network.readout.scale == pytest.approx(scale)
    regression = KernelRidge(alpha=network.config.kernel_ridge, kernel="rbf", gamma=scale)
    regression.fit(known, residual_of(layers_alone(network, images), labels))
    wanted = layers_alone(network, new) + regression.predict(features)
    np.testing.assert_allclose(network.outputs(new), wanted, atol=1e-8)
    assert np.abs(network.outputs(new).numpy() - layers_alone(network, new)).max() > 0.1


@pytest.mark.slow
def test_a_mirrored_readout_is_regression_on_all_images_and_their_mirror_images():
    """Of twice as many equations, with twice the ridge: an image's coefficient is the sum of two equal ones.

    An image is then its own features followed by those of its mirror image, and the kernel is the plain Gaussian.
    """
    network, _ = trained(augment="flip")
    (images, labels), (new, _) = some(TRAINING), some(TEST)
    views = [all_features(network, part) for part in (images, mirrored(images), new, mirrored(new))]
    both, *views = standardised(np.concatenate(views[:2]), *views)
    assert len(both) == 600  # one mean and deviation for both views
    straight, crossed, features = (np.hstack([views[a], views[b]]) for a, b in ((0, 1), (1, 0), (2, 3)))
    scale = scale_of(network.config, straight)
    assert network.readout.scale == pytest.approx(scale)
    output, new_output = ((layers_alone(network, x) + layers_alone(network, mirrored(x))) / 2 for x in (images, new))
    regression = KernelRidge(alpha=2 * network.config.kernel_ridge, kernel="rbf", gamma=scale)
    regression.fit(np.concatenate([straight, crossed]), np.tile(residual_of(output, labels), (2, 1)))
    np.testing.assert_allclose(network.outputs(new), new_output + regression.predict(features), atol=1e-8)
    summed = regression.dual_coef_[:300] + regression.dual_coef_[300:]
    np.testing.assert_allclose(network.readout.coefficients, summed, atol=1e-8)


def test_an_image_and_its_mirror_image_are_predicted_alike():
    """That holds where copies were mirrored in training, and only there."""
    new, _ = some(TEST)
    network, _ = trained(augment="flip")
    assert network.readout.mirrored
    torch.testing.assert_close(network.outputs(mirrored(new)), network.outputs(new), rtol=0, atol=1e-9)
    plain, _ = trained()
    assert not plain.readout.mirrored
    assert float((plain.outputs(mirrored(new)) - plain.outputs(new)).abs().max()) > 0.1


def test_fewer_layers_than_all_have_no_readout():
    """It was fitted to what all layers leave."""
    network, _ = trained()
    new, _ = some(TEST)
    staged = list(network.stack.staged_outputs(torch.as_tensor(new)))
    for layers in (1, 2):
        torch.testing.assert_close(network.outputs(new, layers=layers), staged[layers - 1])
        shortened = network.first_layers(layers)
        assert shortened.readout is None
        torch.testing.assert_close(shortened.outputs(new), staged[layers - 1])
    assert network.first_layers(3).readout is network.readout
    assert torch.equal(network.outputs(new, layers=3), network.outputs(new))
    assert not torch.allclose(network.outputs(new), staged[2], atol=0.1)


@pytest.mark.parametrize("options", [FEW, FEW | {"augment": "flip"}], ids=["plain", "mirrored"])
def test_the_history_tells_how_often_predictions_are_right(options):
    """Predictions made while the readout is fitted equal those made afterwards."""
    network, history = trained(**options)
    for name, part in (("validation", VALIDATION), ("test", TEST)):
        right = float((network.predict(IMAGES[part]).numpy() == LABELS[part]).mean())
        assert getattr(history.readout, f"{name}_accuracy") == right
        assert getattr(history[-1], f"{name}_accuracy") != right
    assert history.readout.seconds > 0


def test_without_other_images_no_accuracy_is_told():
    """The readout is the same."""
    network, history = train(*some(TRAINING), config_of(**FEW), compute=DOUBLE)
    assert (history.readout.validation_accuracy, history.readout.test_accuracy) == (None, None)
    assert torch.equal(network.readout.coefficients, trained(**FEW)[0].readout.coefficients)


def test_the_readout_has_images_of_its_own():
    """Later changes of the array it was trained on do not matter to it."""
    images, labels = (array.copy() for array in some(TRAINING))
    network, _ = train(images, labels, config_of(**FEW), compute=DOUBLE)
    before = network.outputs(IMAGES[TEST])
    images[:] = 0
    assert torch.equal(network.outputs(IMAGES[TEST]), before)


def test_heads_alone_have_no_readout():
    """The default is the paper's."""
    network, history = train(*some(TRAINING), config_of(**FEW, readout="heads"), compute=DOUBLE)
    assert network.readout is None and history.readout is None
    torch.testing.assert_close(
        network.outputs(IMAGES[TEST]), torch.as_tensor(layers_alone(trained(**FEW)[0], IMAGES[TEST]))
    )


@pytest.mark.parametrize("options", [{}, {"augment": "flip"}], ids=["plain", "mirrored"])
@pytest.mark.parametrize("room", [1, 50_000])
def test_predictions_do_not_depend_on_how_many_are_made_at_once(room, options, monkeypatch):
    """Neither on how many images are compared at a time, nor on how many go through a layer at a time."""
    network, _ = trained(**options)
    new = IMAGES[TEST][:6]
    wanted = network.outputs(new)
    monkeypatch.setattr("rescnet.network.readout.features.CHUNK", {"cpu": room})
    at_a_time = batch_size(network.stack, 300, network.readout.mirrored)
    assert at_a_time == 1 if room == 1 else 2 <= at_a_time < 6
    torch.testing.assert_close(network.outputs(new), wanted, rtol=0, atol=1e-9)
    monkeypatch.setattr("rescnet.network.memory.LARGEST_WORKSPACE", {"cpu": 2_000_000})
    assert 2 <= network.stack.chunk < 40
    torch.testing.assert_close(network.outputs(new), wanted, rtol=0, atol=1e-9)
    torch.testing.assert_close(network.outputs(new[:1]), wanted[:1], rtol=0, atol=1e-9)


@pytest.fixture
def passes(monkeypatch):
    """Return a list with the number of images of each pass through the layers."""
    counts = []

    class Counted(LayerwisePass):
        def __init__(self, stack, images, mirrored):
            counts.append(len(images))
            super().__init__(stack, images, mirrored)

    for module in ("kernel", "features"):
        monkeypatch.setattr(f"rescnet.network.readout.{module}.LayerwisePass", Counted)
    return counts


@pytest.mark.parametrize("options", [{}, {"augment": "flip"}], ids=["plain", "mirrored"])
def test_training_images_go_through_the_layers_once_if_their_features_fit(options, passes, monkeypatch):
    """Predictions are the same to the last bit, from the cache or not."""
    network = unused(**options)
    new = IMAGES[TEST][:5]
    first = network.outputs(new)
    assert sorted(passes) == [5, 300]
    assert torch.equal(network.outputs(new), first) and sorted(passes) == [5, 5, 300]
    needed = cache_bytes(network.stack, 300, network.readout.mirrored)
    assert needed == sum(known.features.nbytes for known in network.readout._cache.layers)
    for limit, counts in ((needed, [5, 5, 300]), (needed - 1, [5, 5, 300, 300])):
        network = unused(**options)
        passes.clear()
        monkeypatch.setattr("rescnet.network.readout.features.CACHE", {"cpu": limit})
        assert torch.equal(network.outputs(new), first) and torch.equal(network.outputs(new), first)
        assert sorted(passes) == counts


def test_features_that_were_kept_serve_the_layers_they_are_of_only(passes):
    """Views to be averaged use the same ones; other layers, or the same in another type, have others."""
    network = unused()
    new = IMAGES[TEST][:5]
    before = network.outputs(new)
    assert torch.equal(network.averaged_over("shift 1").averaged_over("").outputs(new), before)
    assert passes.count(300) == 1
    single = with_layers(network, [layer.to(torch.device("cpu"), torch.float32) for layer in network.layers])
    torch.testing.assert_close(single.outputs(new).double(), before, rtol=0, atol=1e-3)
    assert single.outputs(new).dtype == torch.float32 and passes.count(300) == 2
    last = network.layers[-1]
    other = with_layers(network, [*network.layers[:-1], replace(last, weights=last.weights.flip(0))])
    found = other.outputs(new)
    assert torch.equal(found, replace(other, readout=replace(other.readout)).outputs(new))
    assert not torch.allclose(found, before, atol=1e-3)


def test_features_that_were_kept_are_no_part_of_the_model():
    network = unused()
    before = pickle.dumps(network.readout)
    outputs = network.outputs(IMAGES[TEST][:5])
    assert network.readout._cache is not None
    again = pickle.loads(pickle.dumps(network.readout))
    assert len(pickle.dumps(network.readout)) == len(before) and again._cache is None
    assert torch.equal(replace(network, readout=again).outputs(IMAGES[TEST][:5]), outputs)


def with_layers(network, layers):
    """Return the network with other layers."""
    return replace(network, stack=replace(network.stack, layers=layers))


def unused(**options):
    """Return a trained network that has predicted nothing yet."""
    network, _ = trained(**options)
    return replace(network, readout=replace(network.readout))


def test_what_is_kept_leaves_room_for_new_images(monkeypatch):
    """The cache takes at most half of the memory left after the training images' maps: prediction stays possible."""
    network, _ = trained()
    needed = cache_bytes(network.stack, 300, False)
    in_use = 300 * image_bytes(network.config, network.image_shape, 8, False)
    for budget, kept in ((in_use + 2 * needed, needed), (in_use + 2 * needed - 2, 0), (in_use + 1, 0)):
        monkeypatch.setattr("rescnet.network.readout.features.memory_budget", lambda *_, given=budget: given)
        assert cache_bytes(network.stack, 300, False) == kept
        assert batch_size(network.stack, 300, False) >= 1
    assert len(unused().outputs(IMAGES[TEST][:2])) == 2


def test_prediction_is_refused_where_the_training_images_do_not_fit(monkeypatch):
    """In one sentence; fewer layers than all need none of it."""
    network, _ = trained()
    monkeypatch.setattr("rescnet.network.readout.features.memory_budget", lambda *_: 100_000)
    with pytest.raises(ValueError, match=r"memory must hold .* the readout's 300 training images, .*, got 100 kB"):
        network.outputs(IMAGES[TEST])
    assert len(network.outputs(IMAGES[TEST], layers=2)) == 120


@pytest.mark.parametrize("options", [{}, {"augment": "flip"}], ids=["plain", "mirrored"])
def test_predictions_are_the_mean_over_views_that_are_asked_for(options):
    """Readout and all; where mirror images are the same, mirrored views need not be looked at."""
    network, _ = trained(**options)
    new, averaged = torch.as_tensor(IMAGES[TEST][:8]), network.averaged_over("flip + shift 1")
    outputs = [network.outputs(view_images(new, view)) for view in averaged.config.views]
    assert len(outputs) == 10
    torch.testing.assert_close(averaged.outputs(new), torch.stack(outputs).mean(0), rtol=0, atol=1e-9)


def test_halves_come_near_doubles():
    """Features in half precision, padded for tensor cores, predict nearly all digits as doubles do."""
    network, _ = trained()
    single = [layer.to(torch.device("cpu"), torch.float32) for layer in network.layers]
    halved = replace(network, stack=replace(network.stack, layers=single, half=True), readout=None)
    known, labels, new = torch.as_tensor(IMAGES[TRAINING]), torch.as_tensor(LABELS[TRAINING]), IMAGES[TEST]
    halved.readout, found = fit_kernel(halved.stack, known, labels, torch.as_tensor(new))
    assert found.dtype == torch.float32
    assert halved.readout.scale == pytest.approx(network.readout.scale, rel=0.02)
    assert float((found.double() - network.outputs(new)).abs().median()) < 0.01
    assert float((found.argmax(1) == network.predict(new)).double().mean()) > 0.97
    torch.testing.assert_close(halved.outputs(new), found, rtol=0, atol=1e-4)


class Hears:
    """Notes what it hears of a run."""

    def __init__(self):
        self.heard = []

    def planned(self, network, plan):
        self.heard.append("planned")

    def layer_added(self, record):
        self.heard.append("layer")

    def readout_fitted(self, record):
        self.heard.append(f"readout, {record.seconds > 0}")


@pytest.mark.slow
def test_too_little_memory_is_refused_before_any_layer_is_learned():
    """The message says how many images would do, and they do."""
    compute, listener = ComputeOptions(dtype="float64", memory="100MB"), Hears()
    with pytest.raises(ValueError, match=r"a kernel readout of 1,600 images, got 100 MB\. Use about") as error:
        train(*some(slice(1600)), config_of(layers=1), compute=compute, listener=listener)
    assert listener.heard == []
    text = str(error.value)
    assert text.endswith("images, more memory, or readout 'heads'.") and "\n" not in text
    for count in (images_allowed(text), 1600):  # fewer images, or more memory
        given = compute if count < 1600 else replace(compute, memory="300MB")
        network, _ = train(*some(slice(count)), config_of(layers=1), compute=given, listener=listener)
        assert network.readout is not None and listener.heard == ["planned", "layer", "readout, True"]
        listener.heard.clear()
    network, _ = train(*some(slice(1600)), config_of(layers=1, readout="heads"), compute=compute)  # or no readout
    assert network.readout is None


def images_allowed(text):
    return int(re.search(r"about ([\d,]+) images", text)[1].replace(",", ""))


@pytest.mark.parametrize("budget", [5 * 10**9, 40 * 10**9])
@pytest.mark.parametrize("half", [False, True])
def test_the_number_of_images_in_the_message_fits(budget, half):
    """Not many more would fit."""
    machine = Machine(torch.device("cpu"), budget)
    with pytest.raises(ValueError, match="Use about") as error:
        check_readout_fits(config_of(), data_of(10**6), 4, half, machine)
    fewer = images_allowed(str(error.value))
    check_readout_fits(config_of(), data_of(fewer), 4, half, machine)
    with pytest.raises(ValueError, match="Use about"):
        check_readout_fits(config_of(), data_of(fewer * 10 // 8), 4, half, machine)


def data_of(count):
    """Return n digits that take no memory."""
    return TrainingData(torch.zeros(1, dtype=torch.uint8).expand(count, 1, 8, 8), torch.full((1,), 9).expand(count), {})


def test_several_processes_cannot_fit_a_readout():
    """One process has the images of all pairs; without a readout any number of processes may train."""
    alone, two = (Machine(torch.device("cpu"), 10**12, count, count) for count in (1, 2))
    with pytest.raises(ValueError, match="readout must be 'heads' with several processes"):
        check_readout_fits(config_of(), data_of(300), 8, False, two)
    check_readout_fits(config_of(), data_of(300), 8, False, alone)
    check_readout_fits(config_of(readout="heads"), data_of(300), 8, False, two)


def test_with_hardly_a_ridge_no_training_image_is_wrong():
    """The layers alone are wrong on some: the kernel interpolates what they leave."""
    network, history = trained(**FEW, kernel_ridge=1e-6)
    images, labels = some(TRAINING)
    assert history[-1].train_accuracy < 0.99
    assert bool((network.predict(images).numpy() == labels).all())
    np.testing.assert_allclose(network.outputs(images), np.eye(10)[labels], atol=0.01)


def test_the_readout_makes_a_network_better():
    """On the thousand digits and more that neither has seen."""
    network, _ = trained()
    images, labels = some(slice(400, None))
    right = (network.predict(images).numpy() == labels).mean()
    assert right > (layers_alone(network, images).argmax(1) == labels).mean() + 0.01


def test_rounding_that_makes_a_kernel_indefinite_is_met_by_more_ridge():
    """As little as does, of 0.001 and ten times as much at every try."""
    right = torch.arange(6, dtype=torch.float64).view(3, 2)
    ones, eye = torch.ones(3, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    for matrix, ridge, needed in (
        (ones, 0.0, 1e-3),  # equal images
        (ones - 0.005 * eye, 0.0, 1e-2),
        (ones - 0.005 * eye, 4e-3, 4e-2),
        (ones - 0.005 * eye, 6e-3, 6e-3),
    ):
        factor, used = _factor(matrix.clone(), ridge)
        assert used == pytest.approx(needed)
        torch.testing.assert_close(
            torch.cholesky_solve(right, factor), torch.linalg.solve(matrix + needed * eye, right)
        )
    with pytest.raises(FloatingPointError, match="the kernel readout could not be solved"):
        _factor(ones * torch.nan, 0.01)


def test_copies_are_training_images_too():
    """A readout with copies is one of twice as many images; the layers are the same."""
    network, history = trained(**FEW, kernel_copies="shift 1")
    plain, _ = trained(**FEW)
    images, labels = (torch.from_numpy(part) for part in some(TRAINING))
    changes = draw_changes(Augmentation.parse("shift 1"), 300, 1, 1, network.config.seed)[:, 1]
    both = torch.cat([images, change_images(images, changes)])
    others = torch.from_numpy(IMAGES[TEST])
    _, wanted = fit_kernel(plain.stack, both, torch.cat([labels, labels]), others)
    assert torch.allclose(network.outputs(others), wanted, atol=1e-9)
    assert not torch.allclose(plain.outputs(others), wanted, atol=1e-3)
    assert torch.equal(network.readout.images, both)
    assert history.readout.test_accuracy == float((wanted.argmax(1) == torch.from_numpy(LABELS[TEST])).double().mean())


def test_copies_take_memory_and_exclude_the_correction():
    once, twice = (RunSizes((1, 8, 8), 10, count, 100) for count in (5000, 10_000))
    with_copies = config_of(kernel_copies="rotate 5")
    assert readout_bytes(with_copies, once, "cpu") == readout_bytes(config_of(), twice, "cpu")
    with pytest.raises(ValueError, match=r"Use about .* images without kernel_copies, more memory"):
        check_readout_fits(with_copies, data_of(5000), 4, False, Machine(torch.device("cpu"), 10**8))
    with pytest.raises(ValueError, match="kernel_copies must be empty with loo_correction"):
        config_of(kernel_copies="rotate 5", loo_correction=True)
    with pytest.raises(ValueError, match=r"augmentation must be a list, e\.g\. .*, got 'turn 5'"):
        config_of(kernel_copies="turn 5")
