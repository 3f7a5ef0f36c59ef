"""Checks of README and docs: names, options, flags and links exist, and examples run."""

from __future__ import annotations

import importlib.util
import inspect
import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from rescnet import ComputeOptions, Config, NetworkConfig, ResCNetClassifier, preset_names, train
from rescnet.cli import COMMANDS, app
from rescnet.config.grammars import BANKS
from rescnet.family import FamilyConfig, member_names
from rescnet.stages.filters import find_bank

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OF_DOCS = [
    DOCS / f"{name}.md"
    for name in (
        *("get_started", "interface", "guide", "options", "method", "algorithm", "scaling", "performance", "family"),
        "faq",
    )
]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "lab" / "README.md",
    DOCS / "results.md",
    DOCS / "records.md",
    *OF_DOCS,
]
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
OPTIONS = {entry.name for owner in (NetworkConfig, ComputeOptions, FamilyConfig) for entry in fields(owner)}
PARAMETERS = set(inspect.signature(ResCNetClassifier).parameters)
OTHER_NAMES = {"class_names", "positive_share", "x_train", "y_train", "x_val", "y_val", "x_test", "y_test"}


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def code_spans(page):
    """Return what stands between single backticks, outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))


def find(name):
    """Return the object of a dotted name: a module, or what is in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AttributeError(name)


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow
def test_the_readmes_example_runs(tmp_path, capsys):
    (code,) = python_blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line]) == 5
    file = tmp_path / "example.py"
    code = code.replace(
        "ResCNetClassifier(random_state=0).fit(X, y)", "(classifier := ResCNetClassifier(random_state=0).fit(X, y))"
    )
    file.write_text(code.replace("(X_test, y_test)", "(X_test[:200], y_test[:200])"))  # predicting all takes longest
    after = runpy.run_path(str(file))
    assert float(capsys.readouterr().out.splitlines()[0]) >= 0.975
    classifier, digits = after["classifier"], after["X_test"].reshape(-1, 8, 8)
    assert classifier.score(digits[:100], after["y_test"][:100]) >= 0.95
    default = Config(seed=0).complete((1, 8, 8), classes=10, images=300)
    assert classifier.model_.network.config == default and default.has_kernel
    assert (classifier.image_shape_, classifier.n_features_in_) == ((8, 8), 64)


@pytest.mark.slow
def test_the_guides_examples_run(tmp_path, monkeypatch):
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name, reason="export to ONNX needs rescnet[export]")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(python_blocks(DOCS / "guide.md") + python_blocks(DOCS / "options.md"))
    assert code.count("train_size=300, test_size=100") == 1
    Path("guide.py").write_text(code.replace("train_size=300, test_size=100", "train_size=160, test_size=60"))
    after = runpy.run_path("guide.py")
    assert after["early"].n_layers_ <= len(after["early"].model_.network.layers)
    assert len(after["longer"].network.layers) == 4 and len(after["first_two"].network.layers) == 2
    assert after["own"].network.readout and len(after["own"].history) == after["layers"]
    assert (after["loaded"].predict(after["X_test"]) == after["classifier"].predict(after["X_test"])).all()
    assert Path("digits.onnx").exists() and Path("digits.pt2").exists()


@pytest.mark.slow
def test_the_example_of_the_algorithm_runs(capsys):
    (code,) = python_blocks(DOCS / "algorithm.md")
    exec(code, {})
    assert 0.9 < float(re.findall(r"0\.\d+", capsys.readouterr().out)[0]) < 1


def test_the_examples_of_the_interface_run(tmp_path, monkeypatch, capsys):
    text = (DOCS / "interface.md").read_text()
    assert len(text.splitlines()) <= 150
    monkeypatch.chdir(tmp_path)
    Path("interface.py").write_text("\n".join(python_blocks(DOCS / "interface.md")))
    after = runpy.run_path("interface.py")
    assert after["loaded"].labels.tolist() == sorted(after["names"])
    assert after["again"].score(after["new"], after["truth"]) > 0.8
    assert Path("runs/safe/model.json").exists()
    assert f"# {capsys.readouterr().out.splitlines()[-1]}\n" in text  # the comment has the error


def test_the_arguments_of_the_interface_exist():
    rows = (DOCS / "interface.md").read_text().split("## Where an option goes")[1].split("\n\n")[2].splitlines()[2:]
    call = {"Config": Config, "ComputeOptions": ComputeOptions, "images": None, "labels": None}
    assert len(rows) > 10
    for row in rows:
        _, _, ours, theirs, *_ = row.split("|")
        for span in re.findall(r"`([^`]+)`", ours):
            if not span.startswith("predict("):
                eval(f"bind({span})", call | {"bind": inspect.signature(ResCNetClassifier).bind})
        for span in re.findall(r"`([^`]+)`", theirs):
            if not span.startswith("model."):
                eval(f"bind(images, labels, {span})", call | {"bind": inspect.signature(train).bind})


def test_the_readme_is_a_page():
    text = (ROOT / "README.md").read_text()
    lines = text.splitlines()
    assert len(lines) <= 115
    assert len(re.findall(r"^rescnet ", text, re.M)) == 3
    assert not [line for line in lines if line.endswith("\\")]  # no command longer than a line


@PAGE
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+://|tutorials/", target):  # make docs writes and checks the tutorials
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "examples").glob("*.py"))], ids=lambda page: page.name)
def test_names_of_the_library_exist(page):
    for name in re.findall(r"\brescnet(?:\.[A-Za-z_]\w*)+", page.read_text()):
        find(name)


def test_the_reference_lists_every_public_name():
    sections = re.split(r"\.\. currentmodule:: ", (DOCS / "api.md").read_text())[1:]
    listed = {text.split(None, 1)[0]: set(re.findall(r"^   (\w+)$", text, re.M)) for text in sections}
    for name in ("rescnet", "rescnet.data", "rescnet.export", "rescnet.report", "rescnet.playground", "rescnet.family"):
        assert listed[name] == set(find(name).__all__), name
    stages = {path.stem for path in (ROOT / "src" / "rescnet" / "stages").iterdir() if path.stem[0] != "_"}
    assert listed["rescnet.stages"] == stages


def test_functions_of_the_equations_exist():
    table = (DOCS / "method.md").read_text().split("## Equations and functions")[1].split("## Symbols")[0]
    names = {name for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", table) if not name.startswith("rescnet.")}
    assert len(names) > 15
    for name in sorted(names):
        find(f"rescnet.stages.{name}")


@pytest.mark.parametrize("page", [ROOT / "README.md", *OF_DOCS], ids=lambda page: page.name)
def test_options_exist(page):
    """Check ``name = value``, in a code span or a TOML block, and code spans that are a name with an underscore."""
    text = page.read_text()
    named = re.findall(r"`([a-z]\w*) = ", text)
    named += re.findall(r"^([a-z]\w*) = ", "\n".join(re.findall(r"```toml\n(.*?)```", text, re.S)), re.M)
    named += [span for span in code_spans(page) if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)]
    unknown = set(named) - OPTIONS - PARAMETERS - OTHER_NAMES
    assert not unknown, page.name


def names_in_column(page, section, column):
    """Return the names in code spans of one column of a section's table."""
    text = page.read_text().split(f"## {section}\n")[1].split("\n## ")[0].split("\n### ")[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([\w-]+)`", row[column])]


def test_the_groups_of_options_exist():
    listed = names_in_column(DOCS / "options.md", "Options by group", 1)
    assert len(listed) > 40 and len(set(listed)) == len(listed)
    assert set(listed) == {entry.name for owner in (NetworkConfig, ComputeOptions) for entry in fields(owner)}


def test_the_presets_exist():
    listed = names_in_column(DOCS / "options.md", "Presets", 0)
    assert set(listed) == {"paper", *preset_names()}


def test_the_family_page_lists_every_member_and_its_banks_exist():
    spans = set(code_spans(DOCS / "family.md"))
    assert set(member_names()) <= spans
    listed = names_in_column(DOCS / "family.md", "Filter banks in ResCNet", 0)
    assert len(listed) > 8
    ours = {name for name in BANKS if find_bank(name).__module__.startswith("rescnet.")}  # others are examples
    assert set(listed) == ours
    keys = names_in_column(DOCS / "family.md", "The frame", 1)
    assert set(keys) == {entry.name for entry in fields(FamilyConfig)} and len(keys) == len(set(keys))


def test_the_guide_lists_every_command():
    assert names_in_column(DOCS / "guide.md", "The command line", 0) == list(COMMANDS)


def known_flags():
    group = typer.main.get_command(app)
    commands = [group, *(command.load() for command in group.commands.values())]
    own = {flag for command in commands for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    lab = "\n".join(file.read_text() for file in (ROOT / "lab").rglob("*.py"))
    return own | set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', lab))


@PAGE
def test_flags_exist(page):
    text = re.sub(r"^torchrun .* -m", "", page.read_text(), flags=re.M)  # its own flags come first
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--help"}
    assert not flags - known_flags(), page.name


@PAGE
def test_sub_commands_exist(page):
    commands = typer.main.get_command(app).commands
    for name in re.findall(r"(?:^|`|-m )rescnet ([a-z]+)", page.read_text(), re.M):
        assert name in commands, f"{page.name}: rescnet {name}"
    for name in re.findall(r"-m (lab(?:\.[a-z_]+)*)", page.read_text()):
        assert importlib.util.find_spec(name), f"{page.name}: python -m {name}"
    for target in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.M):
        assert re.search(rf"^{target}( [a-z]+)*:", (ROOT / "Makefile").read_text(), re.M), f"{page.name}: make {target}"


def test_the_layout_of_contributing_is_that_of_the_package():
    text = (ROOT / "CONTRIBUTING.md").read_text().split("| folder of `src/rescnet` |")[1].split("\n\n")[0]
    listed = re.findall(r"^\| `([\w.]+)` \|", text, re.M)
    package = ROOT / "src" / "rescnet"
    folders = {path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {name for name in listed if not name.endswith(".py")} == folders
    assert all((package / name).exists() for name in listed)
