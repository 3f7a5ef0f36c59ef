from __future__ import annotations

from pathlib import Path

import pytest
from report.browser import CHROMIUM, Browser

from rescnet.playground import build_page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is missing; install Debian's chromium to test the page in a browser")
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "playground.html"
    file.write_text(build_page(), "utf-8")
    return file
