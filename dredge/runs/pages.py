"""Renders a page from a Jinja template; every value is escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


_SHARED = Path(__file__).parent / "templates"
"""What pages of all kinds include, such as a curve."""


def render(template: Path, **values: Any) -> str:
    """Render a template that lies beside its user, in a folder `templates`.

    Args:
        template: the file; others of its folder can be included.
        values: what it shows. A name that it needs and does not get is an error, not an empty text.
    """
    return _templates(template.parent).get_template(template.name).render(values)


@cache
def _templates(folder: Path) -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
