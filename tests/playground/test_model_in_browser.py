"""Models of the library in the page: the output of each layer is that of Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from digits import IMAGES, LABELS
from train_network import train_network

from rescnet import Config, Model, NetworkConfig
from rescnet.playground import build_page
from rescnet.playground.model import model_data

pytestmark = pytest.mark.slow

OUTPUTS = """((images) => {
  const { model, forward, readOut } = playground, { channels: c, height: h, width: w } = model.network;
  return images.map((numbers) => {
    const image = { n: 1, c, h, w, data: Float64Array.from(numbers) }, steps = forward(model.network, image);
    const outputs = steps.map((step) => step.output);
    if (model.readout) outputs.push(readOut(model.network, model.readout, image, steps));
    return outputs.map((output) => [...output]);
  });
})"""

CONFIGS = {
    "paper": Config("digits", layers=3, filters=8).complete(),
    "default": Config().complete((1, 8, 8), images=200),
    "mirrored": Config(layers=2, stack_depth=2, augment="flip", loo_correction=True).complete((1, 8, 8), images=200),
    "official": NetworkConfig(
        layers=2, filters=6, block_sizes=(4, 3), block_stride=2, pyramid=(2, 1), stop_at_zero_error=False,
        head="multiclass-lda", posterior="normalised-sigmoid",
    ),
}  # fmt: skip


def images_of(colour):
    images = np.repeat(IMAGES, 3, axis=1) * np.array([1, 2, 3], np.uint8)[:, None, None] if colour else IMAGES
    return images[:200], images[1000:1004]


@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_of_each_layer(browser, tmp_path, one_thread, name):
    images, questions = images_of(colour=name == "official")
    network, history = train_network(images, LABELS[:200], CONFIGS[name])
    model = Model(network, history, tuple("0123456789"))
    page = tmp_path / "page.html"
    page.write_text(build_page(model_data(model)), "utf-8")
    browser.open(page)
    assert browser.messages == []
    found = np.array(browser.evaluate(f"{OUTPUTS}({questions.reshape(len(questions), -1).tolist()})"))
    with torch.inference_mode():
        expected = [step.output.numpy() for step in network.stack.steps(torch.from_numpy(questions))]
    if network.readout:
        expected.append(network.outputs(questions).numpy())
    np.testing.assert_allclose(found.transpose(1, 0, 2), expected, atol=1e-4)
    browser.evaluate("playground.pad.load(playground.pad.base.map((_, i) => (i % 3) / 2)); playground.ask()")
    assert browser.text("#answer") in model.class_names and browser.count("#stages canvas") == 7
    assert ("kernel" in browser.text("#model-facts")) == (network.readout is not None)
    assert browser.text("#layer-now") == ("the readout" if network.readout else f"layer {len(network.layers)}")
