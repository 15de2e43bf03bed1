"""Pages escape what they show, and show all that they name."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from dredge.runs.rendering import render

DREDGE = Path(__file__).parents[3] / "dredge"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "page.html.j2"
    path.write_text("<p>{{ text }}</p>\n{% if more %}\n  {% include 'more.j2' %}\n{% endif %}\n")
    (tmp_path / "more.j2").write_text("<i>{{ more }}</i>\n")
    return path


def test_every_value_is_escaped_in_included_templates_too(template: Path) -> None:
    page = render(template, text="<script>&\"'", more="<b>")
    assert page == "<p>&lt;script&gt;&amp;&#34;&#39;</p>\n<i>&lt;b&gt;</i>\n"


def test_a_value_that_is_missing_is_an_error(template: Path) -> None:
    with pytest.raises(jinja2.UndefinedError, match="more"):
        render(template, text="")
