from __future__ import annotations

import pytest

from rescnet.playground import build_page


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "playground.html"
    file.write_text(build_page(), "utf-8")
    return file
