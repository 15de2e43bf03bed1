"""The report of a run as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def render_html(report: Mapping[str, Any]) -> str:
    """Render a report.

    Args:
        report: `title`, `outcome`, `outcome_text`, `headline`, `what_to_do`, `facts` (pairs), `rows` (kind,
            verdict, why, objects, size_bytes), `problems`, `failures`, `warnings`, `findings`, `steps`; if wanted
            `held` and `over_limit` (why, objects, bytes, examples).
    """
    rows = [
        {**row, "size": size_text(row["size_bytes"]), "colour": _colour(row["verdict"])}
        for row in report["rows"]
    ]
    return _template().render({"held": [], "over_limit": [], **report, "rows": rows})


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("report.html.j2")


def size_text(size_bytes: int | None) -> str:
    """Word a size in bytes for people, such as "1.4 MiB"; "" when nobody counted."""
    if size_bytes is None:
        return ""
    value = float(size_bytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def _colour(verdict: str) -> str:
    if "deleted" in verdict:
        return "deleted" if verdict == "deleted" else "held"
    return "kept" if verdict == "kept" else "held"
