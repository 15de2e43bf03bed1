"""Turns values into words, pages and pictures."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2
from collections.abc import Callable, Mapping, Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_DAYS_FROM_SECONDS = 48 * 3600


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


def duration_text(span: timedelta) -> str:
    """Word a length of time for people, such as "12 s", "13 h 12 min" or "2 days": its two largest units."""
    seconds = abs(span.total_seconds())
    sign = "-" if span < timedelta(0) else ""
    if seconds < 59.95:
        return f"{sign}{seconds:.3g} s"
    left = round(seconds)
    words: list[tuple[int, str]] = []
    for unit, size in _SPANS if left >= _DAYS_FROM_SECONDS else _SPANS[1:]:
        count, left = divmod(left, size)
        if count or words:
            words.append((count, unit))
    return sign + " ".join(f"{count} {unit}" for count, unit in words[:2] if count)


def number_of(count: float, noun: str, several: str = "") -> str:
    """Word a number of things, such as "1 day" or "2,000 days".

    Args:
        count: how many.
        noun: of one.
        several: of another number; "" adds an s.
    """
    return f"{count:,g} {noun}" if count == 1 else f"{count:,.12g} {several or f'{noun}s'}"


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


_CURVE_TEMPLATE = Path(__file__).parent / "templates" / "curve.svg.j2"
_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 16, 36


def place_curve(
    marks: Sequence[tuple[int, int, str]], title: str, axis: str, text: Callable[[int], str]
) -> dict[str, Any]:
    """Place the points of a curve.

    Args:
        marks: at least one: place on the axis, height from 0, and what to say of it; in the order of their places.
        title: of the picture.
        axis: what the places are.
        text: words a height.

    Returns:
        What `render_curve` and pages draw; JSON.
    """
    first, last, most = marks[0][0], marks[-1][0], max(1, *(height for _, height, _ in marks))
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    dots = [
        {
            "x": round(_LEFT + across * (place - first) / max(1, last - first), 1),
            "y": round(_TOP + down * (1 - height / most), 1),
            "place": place,
            "text": about,
        }
        for place, height, about in marks
    ]
    return {
        "title": title,
        "axis": axis,
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "top": _TOP,
        "base": _HEIGHT - _BOTTOM,
        "most": text(most),
        "least": text(0),
        "dots": dots,
    }


def render_curve(curve: Mapping[str, Any]) -> str:
    """Draw a curve as an SVG picture."""
    return render(_CURVE_TEMPLATE, curve=curve)
