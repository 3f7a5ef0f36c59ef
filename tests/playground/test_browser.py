"""The page in a real browser: it computes what the library computes, learns from strokes, and keeps its state."""

from __future__ import annotations

import io
import time
from math import cos, pi, sin

import numpy as np
import pytest
import torch
from PIL import Image
from train_network import train_network

from rescnet import ComputeOptions, NetworkConfig

pytestmark = pytest.mark.slow

NUMBERS = """(() => {
  const { app, data, forward, batchOf, trainingSet, readPixels } = playground;
  const pictures = data.digits.test.flatMap((texts) => texts.slice(0, 2));
  const steps = pictures.map((text) => forward(app.network, batchOf([readPixels(text)])));
  const examples = trainingSet(app.state, data.digits);
  return {
    config: app.state.config,
    images: examples.map((example) => [...example.pixels]),
    labels: examples.map((example) => app.present.indexOf(example.label)),
    questions: pictures.map((text) => [...readPixels(text)]),
    layers: app.network.layers.map((layer, i) => ({
      weights: [...layer.weights], bias: [...layer.bias],
      features: steps.map((step) => [...step[i].features]), outputs: steps.map((step) => [...step[i].output]),
    })),
  };
})()"""


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    return browser


def assert_sound(browser):
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []
    assert browser.evaluate("document.querySelector('#problem').hidden"), browser.text("#problem")


def draw(browser, points, touch=False):
    """Draw a stroke on the pad; points are fractions of its sides."""
    browser.point_at("#pad")
    box = browser.evaluate("document.querySelector('#pad').getBoundingClientRect().toJSON()")
    left, top, side = box["left"], box["top"], box["width"]
    places = [{"x": left + x * side, "y": top + y * side} for x, y in points]
    if touch:
        browser.touch(*((place["x"], place["y"]) for place in places))
        return
    pressed = {"button": "left", "buttons": 1, "clickCount": 1}
    browser.call("Input.dispatchMouseEvent", type="mousePressed", **places[0], **pressed)
    for place in places[::2]:  # the pad joins them by lines
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place, **pressed)
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", **places[-1], **pressed)


def enter(browser, selector, value, event):
    found = f"document.querySelector({selector!r})"
    browser.evaluate(f"{found}.value = {value!r}; {found}.dispatchEvent(new Event({event!r}))")


CIRCLE = [(0.5 + 0.3 * cos(i * pi / 8), 0.5 + 0.35 * sin(i * pi / 8)) for i in range(17)]
LINE = [(0.5, 0.1 + 0.05 * i) for i in range(17)]


@pytest.mark.parametrize("address", ["", "#L=3&f=8&s=7&g=0.2&n=3", "#L=4&f=10&n=2&r=0.1.20.21&a=1"])
def test_the_numbers_of_the_library(browser, page, address):
    browser.open(page, address)
    assert_sound(browser)
    found = browser.evaluate(NUMBERS)
    config = NetworkConfig(**found["config"], stop_at_zero_error=False)
    images, questions = (
        torch.tensor(found[name], dtype=torch.uint8).view(-1, 1, 8, 8) for name in ("images", "questions")
    )
    compute = ComputeOptions(device="cpu", dtype="float64")
    network, _ = train_network(images, torch.tensor(found["labels"]), config, compute=compute)
    with torch.inference_mode():
        steps = list(network.stack.steps(questions))
    assert len(found["layers"]) == len(network.layers) == config.layers
    for here, layer, step in zip(found["layers"], network.layers, steps, strict=True):
        np.testing.assert_allclose(here["weights"], layer.weights.flatten(), atol=1e-8)
        np.testing.assert_allclose(here["bias"], layer.bias, atol=1e-8)
        np.testing.assert_allclose(here["features"], step.features, atol=1e-8)
        np.testing.assert_allclose(here["outputs"], step.output, atol=1e-8)


def test_the_first_screen(opened):
    assert_sound(opened)
    assert "corrects it to" in opened.text("#story") and "That is right." in opened.text("#story")
    assert opened.count("#stages canvas") == 7 and opened.count("#bars .track") == 10
    assert opened.count("#examples button") == 50
    assert opened.text("#train-size") == "6 layers on 50 images"


@pytest.mark.alone
def test_training_time(opened):
    again = """(() => {
      const { app, data, trainNetwork, batchOf, trainingSet } = playground;
      const examples = trainingSet(app.state, data.digits);
      const labels = Uint8Array.from(examples, (example) => example.label), start = performance.now();
      trainNetwork(batchOf(examples.map((example) => example.pixels)), labels, 10, app.state.config);
      return performance.now() - start;
    })()"""
    assert min(opened.evaluate(again) for _ in range(5)) < 400  # milliseconds; 200 on a machine that is not busy


@pytest.mark.parametrize("touch", [False, True])
def test_a_class_that_was_taught_is_recognised(opened, touch):
    opened.click("#empty")  # its first class is chosen
    assert "each class" in opened.text("#problem")
    draw(opened, CIRCLE, touch)
    opened.click("#clear")
    draw(opened, [(0.9 * x, y) for x, y in CIRCLE], touch)
    opened.click("#chips button:nth-child(2)")  # another class: an empty pad
    draw(opened, LINE, touch)
    opened.click("#clear")
    draw(opened, [(x + 0.1 * y, y) for x, y in LINE], touch)
    assert_sound(opened)
    assert opened.evaluate("playground.app.state.drawn.map((d) => d.label).join()") == "0,0,1,1"
    opened.click("#chips button:nth-child(2)")  # no class is chosen: ask
    for shape, answer in [(CIRCLE, "A"), (LINE, "B")]:
        opened.click("#clear")
        draw(opened, [(x + 0.05, y) for x, y in shape], touch)
        assert opened.text("#answer") == answer
    assert opened.evaluate("playground.app.state.drawn.length") == 4


def test_drawn_digits_are_recognised(opened):
    for stroke, digit in [([(0.5 + 0.6 * (x - 0.5), y) for x, y in CIRCLE], "0"), (LINE, "1")]:
        opened.click("#clear")
        draw(opened, stroke)
        assert opened.text("#answer") == digit


def test_a_stroke_replaces_the_digit_shown(opened):
    draw(opened, LINE)
    assert opened.evaluate("playground.pad.base.every((value) => value === 0)")
    draw(opened, CIRCLE)
    assert opened.evaluate("playground.pad.strokes.length") == 2
    opened.click("#held-out")
    opened.click("#chips button:nth-child(3)")  # learned at once
    draw(opened, LINE)  # another example of the class
    assert opened.evaluate("playground.app.state.drawn.map((drawn) => drawn.label).join()") == "2,2"


def test_each_stroke_of_an_example_is_learned(opened):
    opened.click("#clear")
    opened.click("#chips button:nth-child(8)")
    weights = "playground.app.network.layers[0].weights.join()"
    seen = [opened.evaluate(weights)]
    for stroke in ([(0.1 * i, 0.1) for i in range(1, 10)], LINE):
        draw(opened, stroke)
        seen.append(opened.evaluate(weights))
    assert len(set(seen)) == 3
    assert opened.count("#examples button.drawn") == 1 and opened.text("#train-size").endswith("on 51 images")
    opened.click("#examples button.drawn")
    assert opened.evaluate(weights) == seen[0]


def test_sliding_through_the_layers(opened):
    outputs = opened.evaluate("playground.app.steps.map((step) => [...step.output])")
    opened.evaluate("document.querySelector('#layer').focus()")
    for layer in range(len(outputs), 0, -1):
        assert opened.text("#layer-now") == f"layer {opened.text('#layer-inside')}" == f"layer {layer}"
        assert opened.text("#answer") == str(int(np.argmax(outputs[layer - 1])))
        shown = opened.evaluate("[...document.querySelectorAll('#bars .value')].map((value) => value.textContent)")
        np.testing.assert_allclose([float(text.replace("−", "-")) for text in shown], outputs[layer - 1], atol=6e-4)
        for kind in ("keyDown", "keyUp"):
            opened.call("Input.dispatchKeyEvent", type=kind, key="ArrowLeft", windowsVirtualKeyCode=37)


def test_formulas_with_numbers(opened):
    for stage in ("input", "filters", "maps", "correlations", "pyramid", "heads", "output"):
        opened.click(f"#stages button[data-stage={stage}]")
        assert opened.count("#detail-formula math") >= 1 and opened.count("#detail-numbers dd") >= 3
        assert opened.evaluate("/NaN|undefined|Infinity/.test(document.querySelector('#detail').textContent)") is False
    opened.click("#stages button[data-stage=maps]")
    value = opened.evaluate("playground.app.steps[5].maps.data[4 * 8 + 4]")
    assert f"{value:.3f}".replace("-", "−") in opened.text("#detail-numbers")
    assert_sound(opened)


def test_sharing_by_address(browser, page):
    browser.open(page)
    browser.click("#clear")
    browser.click("#chips button:nth-child(4)")
    draw(browser, CIRCLE)
    enter(browser, "#settings label:nth-child(4) input", 0.7, "input")
    browser.click("#stages button[data-stage=pyramid]")
    browser.click("#share")
    state = "(({ state, steps }) => JSON.stringify([state.config, state.drawn, steps[5].output]))(playground.app)"
    before, address = browser.evaluate(state), browser.evaluate("location.hash")
    browser.open(page, address)
    assert_sound(browser)
    assert browser.evaluate(state) == before
    assert browser.text("#detail-title") == "Pyramid" and browser.count("#examples button.drawn") == 1


@pytest.mark.parametrize("address", ["#q=zz&L=-3&f=7&c=[1&x=9&r=a.b&l=77&stage=no", "#" + "x" * 3000])
def test_a_damaged_address(browser, page, address):
    browser.open(page, address)
    assert_sound(browser)
    assert browser.text("#answer") != "–"


def test_drawing_with_the_keyboard(opened):
    opened.click("#clear")
    opened.evaluate("document.querySelector('#pad').focus()")
    for key in (" ", "ArrowDown", " ", "ArrowRight", " "):
        opened.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    assert opened.evaluate("playground.pad.ink().reduce((a, b) => a + b)") == 3
    assert opened.text("#answer") != "–"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_layout(browser, page, tmp_path, width, dark):
    browser.open(page, width=width, dark=dark)
    assert_sound(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    for stage in ("filters", "maps", "pyramid", "output"):
        browser.click(f"#stages button[data-stage={stage}]")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    pixels = np.asarray(Image.open(io.BytesIO(browser.screenshot(tmp_path / "page.png"))).convert("L"))
    assert (np.median(pixels) < 80) == dark and pixels.std() > 10


def test_on_a_phone(browser, page, tmp_path):
    """Draw, teach, slide and look at a stage with a finger, at the size of a common phone."""
    browser.open(page, width=390, height=844, phone=True)
    browser.tap("#clear")
    weights = "playground.app.network.layers[0].weights.join()"
    before = browser.evaluate(weights)
    browser.tap("#chips button:nth-child(8)")
    browser.point_at("#pad")
    scrolled = browser.evaluate("scrollY")
    draw(browser, LINE, touch=True)
    assert browser.evaluate("scrollY") == scrolled  # a stroke downwards draws, and does not scroll the page
    assert browser.evaluate(weights) != before and browser.text("#train-size").endswith("on 51 images")
    for _ in range(5):  # Chromium may take the tap after a stroke for a part of it
        browser.tap("#stages button[data-stage=pyramid]")
        time.sleep(0.5)
        if browser.text("#detail-title") == "Pyramid":
            break
    assert browser.text("#detail-title") == "Pyramid"
    browser.point_at("#layer")
    left, width, y = browser.evaluate(
        "(({ left, width, top, height }) => [left, width, top + height / 2])"
        "(document.querySelector('#layer').getBoundingClientRect())"
    )
    browser.touch((left + width - 8, y), (left + width / 2, y), (left + 8, y))
    assert browser.text("#layer-now") == "layer 1"
    assert_sound(browser)
    assert browser.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [390, 390]
    browser.screenshot(tmp_path / "phone.png")
    controls = "[...document.querySelectorAll('button, input[type=range]')].map((e) => e.offsetHeight).filter(Boolean)"
    assert min(browser.evaluate(controls)) >= 24  # pixels: what a finger can hit


def test_names_are_never_html(opened):
    name = "<img src=x>"
    enter(opened, ".class input", name, "change")
    opened.click("#share")
    assert opened.count("img") == 0 and name in opened.text("#chips")
    assert "img" in opened.evaluate("decodeURIComponent(location.hash)")
