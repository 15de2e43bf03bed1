"""A curve as a picture: points are placed here, and drawn by a template, in a page or alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dredge.runs.pages import render

_TEMPLATE = Path(__file__).parent / "templates" / "curve.svg.j2"
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
    return render(_TEMPLATE, curve=curve)
