"""Settings of the documentation site: ``make docs`` builds it into ``docs/_build/html``.

The source directory is the root of the repository, so that pages keep the relative links they have there: to the
journal, to the pages of the record, and to the changelog.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

from rescnet import __version__
from rescnet.config.option import declared_types
from rescnet.playground import build_page

project = "rescnet"
author = "The rescnet developers"
copyright = "the rescnet developers, MIT licence"
version = release = __version__

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "lab/*.md",
    "lab/records/pages/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "src", "tests", "dist", "runs", "docs/_build", "docs/_templates", "**/__pycache__"]
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
nitpicky = True  # a name of this library that does not exist is a warning, and a warning fails the build
nitpick_ignore_regex = [  # other libraries, and modules that have no page
    (r"py:.*", r"(?!rescnet\b).*"),
    (r"py:.*", r"rescnet\.(base|config|estimator|explain|export|fused|model|network|numerics|playground|training)\..*"),
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"  # in the signature they hide the names; numpydoc's lists of parameters state them
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
templates_path = [str(Path(__file__).parent / "_templates")]  # autosummary looks in the source directory

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/tutorials",
    "backreferences_dir": None,
    "capture_repr": (),
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = f"rescnet {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_copy_source = False
html_show_sphinx = False
single_pages = ("index", "get_started", "method", "algorithm", "results", "records", "faq")
html_sidebars = {page: [] for page in ("C*", *(f"docs/{name}" for name in single_pages))}
html_theme_options: dict[str, Any] = {
    "logo": {"text": "rescnet"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def write_playground(app: Any, error: Exception | None) -> None:
    """Write the playground beside the landing page."""
    if error is None and app.builder.name == "html":
        (Path(app.outdir) / "docs" / "playground.html").write_text(build_page(), "utf-8")


def list_options(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Append the declared options of a dataclass to its docstring, as parameters."""
    if what != "class" or not is_dataclass(obj) or not all("help" in entry.metadata for entry in fields(obj)):
        return
    lines += ["", "Parameters", "----------"]
    for entry in fields(obj):
        declared = declared_types(obj)[entry.name]
        choices = [f'"{choice}"' for choice in get_args(declared)] if get_origin(declared) is Literal else []
        kind = "{" + ", ".join(choices) + "}" if choices else str(entry.type)
        lines += [f"{entry.name} : {kind}, default={entry.default!r}", f"    {entry.metadata['help']}"]
    lines.append("")


def visit_math(self: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw without a script."""
    self.body.append(tex2mathml(node.astext(), as_block=node.tagname == "math_block"))
    raise SkipNode


def setup(app: Any) -> None:
    """Register the renderer of formulas, the lists of options and the playground."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("build-finished", write_playground)
    app.connect("autodoc-process-docstring", list_options, priority=400)  # before numpydoc reads it
