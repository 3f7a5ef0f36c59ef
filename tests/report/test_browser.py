"""The page in a real browser: scripts run, charts are drawn, controls work."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from train_network import train_network

from rescnet import NetworkConfig
from rescnet.base.intervals import show_interval
from rescnet.data import Dataset, ImageSet
from rescnet.report import write_report

pytestmark = pytest.mark.slow

CHARTS = (
    "accuracy-plot",
    "changes-plot",
    "signs-plot",
    "trace-outputs",
    "trace-margin",
    "trace-runs",
    "cost-plot",
    "calibration-plot",
    "chain",
)
HOSTILE = "</script><script>window.pwned = 1</script>"
HOSTILE_IMAGE = '"><img src=x onerror="window.pwned = 2">'


@pytest.fixture(scope="module")
def page(model, dataset, tmp_path_factory):
    return write_report(model, tmp_path_factory.mktemp("page") / "report.html", dataset, images_shown=5)


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    return browser


def assert_sound(browser):
    assert browser.evaluate("document.documentElement.dataset.errors") == "0", browser.text("#error")
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []


def test_charts_and_requests(opened, model, dataset):
    assert_sound(opened)
    for chart in CHARTS:
        assert opened.count(f"#{chart} svg") == 1, chart
    assert opened.text("h1") == "blobs: a network of 5 layers"
    assert opened.count("#steps li") == 8
    assert opened.count(".matrix tbody td") == 36
    total = opened.evaluate("[...document.querySelectorAll('.matrix td')].reduce((s, d) => s + +d.textContent || s, 0)")
    assert total == len(dataset.test)
    last = f"{100 * model.history[-1].test_accuracy:.2f} %"
    assert last in opened.text("#figures")
    assert opened.count("#filter-layers details") == 4
    assert opened.evaluate("[...document.images].every((i) => i.complete && i.naturalWidth > 0 && i.alt !== '')")


def test_choosing_an_image(browser, page):
    browser.open(page, "#image=2")
    chosen = browser.evaluate("document.querySelector('#trace-image').src")
    assert chosen == browser.evaluate("document.querySelector('#picker button[data-image=\"2\"] img').src")
    paths = browser.evaluate("document.querySelector('#trace-outputs svg').innerHTML")
    browser.click('#picker button[data-image="3"]')
    assert browser.evaluate("location.hash") == "#image=3"
    assert browser.evaluate("document.querySelector('#trace-figure').dataset.image") == "3"
    assert browser.evaluate("document.querySelector('#trace-outputs svg').innerHTML") != paths
    changes = browser.text("#trace-changes")
    assert "Layer 1 predicts" in changes and "After layer 5 the prediction is" in changes
    probabilities = browser.evaluate("document.querySelector('#trace-outputs svg').innerHTML")
    browser.click("input[value=raw]")
    assert browser.evaluate("document.querySelector('#trace-outputs svg').innerHTML") != probabilities
    assert_sound(browser)


def test_address_of_a_missing_image(browser, page):
    browser.open(page, "#image=999")
    assert_sound(browser)
    assert browser.evaluate("document.querySelector('#trace-outputs svg') !== null")


def test_tooltip(opened, model):
    opened.point_at("#accuracy-plot svg > rect:last-of-type", 0.5)
    assert opened.evaluate("document.querySelector('#tip').hidden") is False
    tip = opened.text("#tip")
    assert tip.startswith("layer 3")
    assert f"{100 * model.history[2].test_accuracy:.2f} %" in tip
    opened.evaluate("document.querySelector('#accuracy-figure').focus()")
    opened.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert opened.text("#tip").startswith("layer 4")
    opened.point_at("#cost-plot svg > rect:last-of-type", 0.1)
    assert opened.text("#tip").startswith("layer 1")


def test_confusion_slider(opened, model, dataset):
    correct = np.array(
        [model.network.predict_indices(dataset.test.images, layer).numpy() == dataset.test.labels for layer in (1, 5)]
    )
    rows = "[...document.querySelectorAll('.matrix tbody tr')]"
    count = f"{rows}.reduce((sum, row, i) => sum + (+row.cells[i + 1].textContent || 0), 0)"
    assert opened.evaluate(count) == correct[1].sum()
    opened.evaluate(
        "(() => { const s = document.querySelector('#confusion-depth input'); s.value = 0;"
        " s.dispatchEvent(new Event('input')); })()"
    )
    assert opened.text("#confusion-depth output").startswith("after layer 1")
    assert opened.evaluate(count) == correct[0].sum()


def test_layers_after_those_used(browser, model, dataset, tmp_path):
    short = replace(model, network=replace(model.network, used_layers=2))
    browser.open(write_report(short, tmp_path / "short.html", dataset))
    assert_sound(browser)
    assert browser.text("#confusion-depth output").startswith("after layer 2")
    assert "Predictions use the first 2." in browser.text("#accuracy-words")
    last = model.history[-1].test_accuracy
    interval = f"95 % interval {show_interval(last, len(dataset.test))}"
    assert interval in browser.text("#figures") and browser.count("#accuracy-plot polygon") == 1
    assert "expected calibration error is 0." in browser.text("#calibration-words")
    wrong = round((1 - model.history[1].test_accuracy) * len(dataset.test))
    assert browser.text("#wrong-lede").startswith(f"Of {wrong} wrong predictions")


def test_gallery_opens_the_trace(opened):
    opened.click("#gallery button")
    assert re.fullmatch(r"#image=\d+", str(opened.evaluate("location.hash")))
    assert "predicted as" in opened.text("#trace-title")


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (380, True)])
def test_layout(browser, page, tmp_path, width, dark):
    browser.open(page, width=width, dark=dark)
    assert_sound(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    pixels = np.asarray(Image.open(io.BytesIO(browser.screenshot(tmp_path / "page.png"))).convert("L"))
    assert pixels.shape[1] == width and pixels.shape[0] >= 900
    assert (np.median(pixels) < 80) == dark
    assert pixels.std() > 10


def test_names_are_never_html(browser, model, dataset, tmp_path):
    names = (HOSTILE, HOSTILE_IMAGE, "a & b", "<b>bold</b>", "'quoted'", "<!--DATA-->")
    parts = {
        split: ImageSet(part.images, part.labels, names)
        for split, part in vars(dataset).items()
        if isinstance(part, ImageSet)
    }
    about = {"dataset": HOSTILE, "command": HOSTILE_IMAGE, HOSTILE: {"deep": [HOSTILE_IMAGE, "javascript:alert(1)"]}}
    hostile = write_report(
        replace(model, labels=np.array(names), about=about), tmp_path / "hostile.html", Dataset(HOSTILE, **parts)
    )
    assert "window.pwned = 1</script>" not in hostile.read_text().replace("&lt;", "")
    browser.open(hostile)
    assert_sound(browser)
    assert browser.evaluate("window.pwned") is None
    assert HOSTILE in browser.text("h1")
    assert browser.evaluate("document.title").startswith(HOSTILE)
    assert browser.text("#command") == HOSTILE_IMAGE
    assert browser.count(".matrix b") == 0 and browser.count("img[src=x]") == 0
    assert "<!--DATA-->" in browser.text(".matrix")
    # The content security policy blocks even a script inside the page.
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.pwned = 3'}))"
    )
    assert browser.evaluate("window.pwned") is None


def test_without_images(browser, model, tmp_path):
    browser.open(write_report(model, tmp_path / "report.html"))
    assert_sound(browser)
    assert "rescnet report MODEL FOLDER" in browser.text("#notes")
    assert "note at the top" in browser.text("#trace-lede")
    assert browser.evaluate("document.querySelector('#trace-body').hidden") is True
    assert browser.count("#accuracy-plot svg") == 1 and browser.count("#filter-layers img") > 0


@pytest.mark.parametrize(
    ("depth", "said", "arrows"),
    [
        (0, "Layer 1 takes the image, each later layer the image and the 6 maps of the previous layer.", 3),
        (1, "Each layer takes the image alone.", 0),
        (4, "Layers form stacks of 4: the first of a stack takes the image, the others the image and the 6 maps", 2),
    ],
)
def test_input_of_layers(browser, model, tmp_path, depth, said, arrows):
    stack = replace(model.network.stack, config=replace(model.network.config, stack_depth=depth))
    changed = replace(model, network=replace(model.network, stack=stack))
    browser.open(write_report(changed, tmp_path / "report.html"))
    assert_sound(browser)
    assert said in browser.text("#how-words")
    # Beside an arrow into and one out of each of the three boxes: those between boxes.
    assert browser.count("#chain path[marker-end]") == 6 + arrows


def test_without_facts_about_the_training(browser, model, dataset, tmp_path):
    browser.open(write_report(replace(model, about={}), tmp_path / "bare.html"))
    assert_sound(browser)


def test_many_classes_and_one_layer(browser, model, tmp_path):
    names = tuple(f"class {number}" for number in range(24))
    rng = np.random.default_rng(0)
    images = rng.random((96, 1, 9, 9), np.float32)
    labels = np.arange(96) % 24
    images[:, 0, 4] += labels[:, None] / 24
    config = NetworkConfig(layers=1, filters=4, block_sizes=(4,), block_stride=2, pyramid=(1,), bank="pca")
    network, history = train_network(images, labels, config)
    held_out = ImageSet(images, labels, names)
    many = replace(model, network=network, history=history, labels=np.array(names))
    browser.open(write_report(many, tmp_path / "many.html", Dataset("many", held_out, held_out)))
    assert_sound(browser)
    assert browser.count("#confusion canvas") == 1 and browser.count(".matrix") == 0
    browser.point_at("#confusion canvas", 0.5)
    assert "class 12" in browser.text("#tip")
    assert browser.text("#class-accuracy summary") == "All 24 classes"
