"""Exported files compute the outputs of the network; others are never written."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from train_network import train_network
from typer.testing import CliRunner

from rescnet import ComputeOptions, Config, NetworkConfig, ResCNetClassifier, __version__
from rescnet.cli import app
from rescnet.export import files as exporting
from rescnet.export.files import ExportedNetwork, export_onnx, export_program
from rescnet.export.verify import differences, is_explained, unsteadiness
from rescnet.model import Model, describe_images
from rescnet.network.network import Network
from rescnet.saving import save_model

SMALL = {
    "filters": 5,
    "layers": 2,
    "bank": "pca",
    "block_sizes": [4],
    "block_stride": 2,  # overlapping blocks of tiles of 2×2
    "pyramid": (2, 1),
    "ridge": 1.0,
    "stop_at_zero_error": False,
}
OPTIONS = {
    "defaults": {},
    "softmax": {"posterior": "softmax"},
    "shares": {"posterior": "normalised-sigmoid"},
    "ridge": {"head": "ridge"},
    "multiclass-lda": {"head": "multiclass-lda"},
    "channel scaling": {"scaling": "channel"},
    "mean": {"pooling": "mean"},
    "adaptive": {"pyramid_bins": "adaptive"},
    "single-pixel tiles": {"block_sizes": [5]},
    "tiles that are blocks": {"block_stride": 4},
    "even filters": {"first_filter_size": 4, "filter_size": 2},
    "large odd filters": {"first_filter_size": 5},
    "two stacks, one grey": {"stack_depth": 1, "grey_stack_every": 2, "block_sizes": [6]},
    "beyond the paper": {"rectifier": "both", "block_sizes": [5, 6], "pooling": "mean", "matrix_log": True},
    "test views": {"test_views": "flip"},
    "readout": {"readout": "kernel"},
    "readout, correction, views": {"readout": "kernel", "loo_correction": True, "test_views": "flip"},
    "mirrored readout, views": {"readout": "kernel", "augment": "flip", "test_views": "flip + shift 1"},
}
MIXED = {"posterior": "softmax", "scaling": "channel", "pooling": "mean", "pyramid_bins": "adaptive"}
EVEN = {"head": "multiclass-lda", "posterior": "softmax", "first_filter_size": 2}
BEYOND = {
    "layers": 1, "rectifier": "both", "block_sizes": [5], "pooling": "mean", "matrix_log": True, "pyramid": (1,),
}  # fmt: skip
MIRRORED = {"readout": "kernel", "augment": "flip", "test_views": "flip + shift 1"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trained(blobs):
    """Train a small network with some options; returns a model."""
    images, labels = blobs
    known = {}

    def make(**options):
        key = json.dumps(options)
        if key not in known:
            compute = ComputeOptions(device="cpu")
            network, history = train_network(images, labels, NetworkConfig(**(SMALL | options)), compute=compute)
            names = tuple(f"grating “{number}”" for number in range(network.classes))
            known[key] = Model(network, history, names, {"preprocessing": describe_images(torch.as_tensor(images))})
        return known[key]

    return make


@pytest.fixture
def need_onnx():
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name, reason="export to ONNX needs rescnet[export]")


def floats(images):
    return torch.as_tensor(images).float()


def run_onnx(file, images):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(None, {"images": np.asarray(images, np.float32)})[0]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_module_is_the_network(trained, blobs, options):
    network = trained(**options).network
    module = ExportedNetwork(network)
    assert not list(module.parameters())
    types = {torch.float32, torch.bool} | ({torch.int8} if "readout" in options else set())
    assert {buffer.dtype for buffer in module.buffers()} == types
    for layers in (1, None):
        found = ExportedNetwork(network.first_layers(layers or len(network.layers)))(floats(blobs[0][:20]))
        torch.testing.assert_close(found, network.outputs(blobs[0][:20], layers), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_program_has_the_readout(trained, blobs, tmp_path):
    """Unless it is left out, or other layers are asked for. Codes stay eight-bit integers."""
    model, file = trained(layers=1, pyramid=(1,), **MIRRORED), tmp_path / "model.pt2"
    assert export_program(model, file) <= 1e-3
    program = torch.export.load(file)
    assert {tensor.dtype for name, tensor in program.state_dict.items() if "codes" in name} >= {torch.int8}
    for n in (1, 7):
        wanted = model.network.outputs(blobs[0][:n])
        torch.testing.assert_close(program.module()(floats(blobs[0][:n])), wanted, rtol=0, atol=1e-3)
    both = trained(layers=2, readout="kernel")
    for layers, without, has in ((None, False, True), (None, True, False), (1, False, False), (2, False, True)):
        network = exporting._checked(both, tmp_path / "a.pt2", ".pt2", layers, False, without)[-1]
        assert (network.readout is not None) == has and len(network.layers) == (layers or 2)


@pytest.mark.slow
def test_a_program_loaded_back_is_the_network(trained, blobs, tmp_path):
    """With other options than the defaults, whose layers ``cli/test_patience.py`` exports."""
    model, file = trained(**MIXED | {"first_filter_size": 4}), tmp_path / "model.pt2"
    assert export_program(model, file) <= 1e-5
    extra = {"rescnet.json": ""}
    program = torch.export.load(file, extra_files=extra).module()
    for n in (1, 7):
        wanted = model.network.outputs(blobs[0][:n])
        torch.testing.assert_close(program(floats(blobs[0][:n])), wanted, rtol=0, atol=1e-5)
    facts = json.loads(extra["rescnet.json"])
    assert facts["rescnet_version"] == __version__ and json.loads(facts["class_names"]) == list(model.class_names)


@pytest.mark.slow
def test_the_command_writes_onnx(need_onnx, rescnet, trained, blobs, tmp_path):
    """Onnxruntime computes what the network does, with a readout and beyond the paper."""
    import onnx

    model, file = trained(loo_correction=True, **EVEN | BEYOND | MIRRORED), tmp_path / "model.onnx"
    save_model(model, tmp_path / "model")
    done = rescnet("export", tmp_path / "model", "--out", file, "--layers", 1)
    assert done.exit_code == 0, done.output
    assert "1 layer, " in done.stdout and done.stderr.count("\n") == 3  # a line per step, no warning
    assert {entry.name for entry in tmp_path.iterdir()} == {"model", "model.onnx"}
    for n in (1, 30):
        wanted, found = model.network.outputs(blobs[0][:n]), run_onnx(file, blobs[0][:n])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)
        np.testing.assert_array_equal(found.argmax(1), wanted.argmax(1))
    readout = model.network.readout
    numbers = readout.codes.integers.numel() + readout.encoder.projection.integers.numel()
    assert file.stat().st_size < sum(t.nbytes for t in model.network.learned()) + 2 * numbers + 200_000
    made = onnx.load(file)
    facts = {entry.key: entry.value for entry in made.metadata_props}
    assert json.loads(facts["class_names"]) == list(model.class_names)
    assert json.loads(facts["preprocessing"])["high"] == 255
    assert (facts["rescnet_version"], facts["layers"]) == (__version__, "1")
    assert facts["images"] == "float32 (n, 3, 12, 12), values as in training: 0 to 255"
    assert facts["images"] in made.doc_string and "float32 (n, 6), one per class" in made.doc_string
    temperature = float(facts["probabilities"].removeprefix("softmax(outputs / ").removesuffix(")"))
    found = torch.softmax(torch.as_tensor(run_onnx(file, blobs[0][:30])).double() / temperature, 1).numpy()
    np.testing.assert_allclose(found, model.predict_proba(blobs[0][:30]), rtol=0, atol=1e-2)
    assert made.graph.input[0].doc_string == facts["images"]


@pytest.mark.slow
def test_first_layers_of_a_bare_network_of_halves(trained, blobs, tmp_path):
    """The program computes in float32."""
    network, file, steps = trained().network, tmp_path / "first.pt2", []
    halves = Network(replace(network.stack, half=True))
    assert export_program(halves, file, layers=1, progress=steps.append) <= 1e-4
    assert steps == ["tracing 1 layer", "converting to .pt2 and writing", "comparing its outputs with the model's"]
    found = torch.export.load(file).module()(floats(blobs[0][:5]))
    torch.testing.assert_close(found, network.outputs(blobs[0][:5], 1), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_fitted_classifier_of_doubles_is_exported(tmp_path):
    """The program computes in float32."""
    images = np.random.default_rng(0).integers(0, 17, (30, 8, 8))
    options, extra = {"readout": "kernel", "pyramid": (1,)}, {"rescnet.json": ""}
    classifier = ResCNetClassifier(1, config=Config("paper", filters=4, **options)).fit(images, np.arange(30) % 3)
    assert classifier.model_.network.layers[0].weights.dtype == torch.float64
    assert export_program(classifier, tmp_path / "a.pt2") <= 1e-4
    program = torch.export.load(tmp_path / "a.pt2", extra_files=extra).module()
    found = program(floats(images[:, None])).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, classifier.decision_function(images), rtol=0, atol=1e-4)
    facts = json.loads(extra["rescnet.json"])
    assert facts["class_names"] == '["0", "1", "2"]' and facts["images"].endswith("0 to 16")
    with pytest.raises(ValueError, match="got an object of type dict"):
        export_program({}, tmp_path / "b.pt2")


@pytest.fixture
def without_tracing(monkeypatch):
    """Call it, and .pt2 files are written at once; their outputs are zeros."""

    def change():
        zeros = SimpleNamespace(module=lambda: lambda images: torch.zeros(len(images), 6))
        monkeypatch.setattr(torch.export, "export", lambda *_, **__: None)
        monkeypatch.setattr(torch.export, "save", lambda _, file, **__: file.write(b"new"))
        monkeypatch.setattr(torch.export, "load", lambda _: zeros)

    return change


def test_a_file_that_differs_is_not_left(trained, tmp_path, monkeypatch, without_tracing):
    without_tracing()
    seen = torch.full((8, 3, 12, 12), 128.0)
    monkeypatch.setattr(exporting, "differences", lambda *_: (seen, torch.tensor([float("nan")] + 7 * [0.0])))
    with pytest.raises(ValueError, match=r"nan"):
        export_program(trained(), tmp_path / "a.pt2", layers=1)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(exporting, "differences", lambda *_: (seen, torch.tensor([0.5] + 7 * [0.0])))
    (tmp_path / "a.pt2").write_text("mine")
    with pytest.raises(ValueError, match=r"differ from the network's by 0.5, more than 0.0001, so .* was not written"):
        export_program(trained(), tmp_path / "a.pt2", layers=1, overwrite=True)
    assert (tmp_path / "a.pt2").read_text() == "mine"


def test_a_full_disk_is_an_error_that_leaves_nothing(trained, tmp_path, monkeypatch, without_tracing):
    """Torch's own writer would end the process."""

    def full(*_):
        raise OSError("No space left on device")

    without_tracing()
    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        export_program(trained(), tmp_path / "m.pt2", layers=1)
    assert list(tmp_path.iterdir()) == []


def test_the_comparison_sees_a_difference(trained):
    network = trained().network
    images, found = differences(network, network.outputs, 1e-4)
    assert images.shape == (8, 3, 12, 12) and float(found.max()) <= 1e-6
    _, found = differences(network, lambda images: network.outputs(images) + 0.25, 1e-4)
    torch.testing.assert_close(found, torch.full((8,), 0.25), rtol=0, atol=1e-5)
    assert not is_explained(network, images, found, 1e-4)


def test_a_jump_of_the_network_itself_explains_a_difference(trained):
    """The second of two images lies on an edge: its outputs jump by 1e-3 with the last digit of a pixel."""
    network, edge = trained().network, torch.full((3, 12, 12), 0.5)
    images = torch.stack([edge / 2, edge])

    class Edgy(type(network)):
        def outputs(self, images, *_):
            return 1e-3 * (images.mean((1, 2, 3), keepdim=True).flatten(1) > 0.5).float().expand(-1, 6)

    edgy = Edgy(network.stack)
    assert unsteadiness(edgy, images).tolist() == pytest.approx([0, 1e-3])
    for found, explained in (([0, 1e-3], True), ([1e-3, 0], False), ([0, 3e-3], False), ([1e-3, 1e-3], False)):
        assert is_explained(edgy, images, torch.tensor(found), 1e-4) == explained, found
    assert is_explained(edgy, images, torch.tensor([1e-5, 1e-5]), 1e-4)


def test_bad_input_is_refused(trained, tmp_path, monkeypatch):
    model = trained()
    (tmp_path / "there.pt2").write_text("mine")
    for export, name, layers, words in (
        (export_program, "there.pt2", None, "must be a new file"),
        (export_program, "a.onnx", None, r"must end in \.pt2"),
        (export_onnx, "a.pt2", None, r"must end in \.onnx"),
        (export_program, "a.pt2", 0, "between 1 and 2, got 0"),
        (export_onnx, "a.onnx", 3, "between 1 and 2, got 3"),
        (export_program, "nowhere/a.pt2", None, "must be in an existing folder"),
    ):
        with pytest.raises(ValueError, match=words):
            export(model, tmp_path / name, layers)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"pip install 'rescnet\[export\]'"):
        export_onnx(model, tmp_path / "a.onnx")
    assert [entry.name for entry in tmp_path.iterdir()] == ["there.pt2"]


def test_what_no_onnx_file_can_hold_is_refused(need_onnx, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "ONNX_LIMIT", 1000)
    with pytest.raises(ValueError, match=r"must hold at most 1 kB, got .* Export fewer layers"):
        export_onnx(trained(), tmp_path / "a.onnx")


@pytest.fixture
def rescnet():
    apart = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner.__init__).parameters else {}
    return lambda *words: CliRunner(**apart).invoke(app, [str(word) for word in words])


def test_the_command(rescnet, trained, tmp_path, without_tracing):
    """Tracing is left out: ``test_the_command_writes_onnx`` and ``cli/test_patience.py`` export real files."""
    without_tracing()
    save_model(trained(), tmp_path / "model")
    out = tmp_path / "model.pt2"
    done = rescnet("export", tmp_path / "model", "--out", out, "--layers", 1, "--tolerance", 100)
    assert done.exit_code == 0, done.output
    assert "input: float32 (n, 3, 12, 12), values as in training: 0 to 255\n" in done.stdout
    assert f"{out}: 1 layer, " in done.stdout and "largest difference" in done.stdout
    steps = [line.split("  ")[-1] for line in done.stderr.splitlines()]
    assert [step.split()[0] for step in steps] == ["tracing", "converting", "comparing"]
    assert done.stderr.splitlines()[0].strip().startswith("0.")  # seconds since the start
    for words, sentence in (([out], "--overwrite"), ([tmp_path / "a.pth"], "must end in .onnx or .pt2, got")):
        refused = rescnet("export", tmp_path / "model", "--out", *words)
        assert refused.exit_code == 2 and sentence in refused.stderr and refused.stderr.count("\n") == 1
    strict = rescnet("export", tmp_path / "model", "--out", out, "--layers", 1, "--overwrite", "--tolerance", -1)
    assert strict.exit_code == 2 and "more than -1" in strict.stderr and out.exists()


@pytest.fixture(scope="module")
def of_few():
    """A classifier of so few digits that most images are far from all classes, and such images."""
    images, labels = load_digits(return_X_y=True)
    classifier = ResCNetClassifier(
        1, config=Config("paper", filters=30, pyramid=(2, 1)), random_state=0, dtype="float32"
    )
    return classifier.fit(images[:60], labels[:60]), images[60:160]


@pytest.mark.slow
def test_images_that_no_class_claims_have_the_same_answer_in_onnxruntime(need_onnx, of_few, tmp_path):
    classifier, images = of_few
    export_onnx(classifier, tmp_path / "few.onnx")
    outputs = run_onnx(tmp_path / "few.onnx", images.reshape(-1, 1, 8, 8).astype(np.float32))
    wanted = classifier.decision_function(images)
    assert (wanted.max(1) < 1e-9).sum() > 10
    np.testing.assert_array_equal(outputs.argmax(1), wanted.argmax(1))


def test_another_answer_is_a_difference_however_small_the_outputs(of_few):
    network = of_few[0].model_.network

    def rounded(images):
        return network.outputs(images).where(network.outputs(images) > 1e-8, 0)

    images, found = differences(network, network.outputs, 1e-4)
    assert bool((network.outputs(images).amax(1) < 1e-8).any()) and float(found.max()) < 1e-6
    assert bool(differences(network, rounded, 1e-4)[1].isinf().any())


def test_a_readout_without_a_temperature_has_no_formula_of_probabilities(trained):
    network = trained(**OPTIONS["readout"]).network
    assert "probabilities" in exporting._metadata(network, network)
    unjudged = replace(network, readout=replace(network.readout, temperature=None))
    assert "probabilities" not in exporting._metadata(unjudged, unjudged)
