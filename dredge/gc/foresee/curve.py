"""The curve of what rules would free, for the terminal and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dredge.gc.foresee.proposals import points
from dredge.runs.words import size_text

_WIDTH = 48
_SVG = {"width": 640, "height": 240, "left": 90, "right": 20, "top": 16, "bottom": 36}


def table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw what proposals would free as a table, and as bars.

    Args:
        found: as `Foreseen.to_json` gives it.
    """
    most = max((item["freed_bytes"] for item in found), default=0)
    width = max([5, *(len(item["name"]) for item in found)]) + 2
    yield f"{'rules':<{width}}{'commits':>9}{'freed':>12}{'bytes':>11}{'more than now':>15}{'may be held':>13}"
    for item in found:
        about = item["bound"] and f"{item['bound']} "
        more = item["more_bytes"] - item["less_bytes"]
        yield (
            f"{item['name']:<{width}}{item['commits']:>9,}{about + format(item['freed_objects'], ','):>12}"
            f"{size_text(item['freed_bytes']):>11}{('-' if more < 0 else '') + size_text(abs(more)):>15}"
            f"{item['held_objects']:>13,}  {bar(item['freed_bytes'], most)}"
        )
    for item in {item["unknown"]: item for item in found if item["unknown"]}.values():
        yield f"{item['bound']} {item['unknown']}"


def bar(value: int, most: int) -> str:
    """A bar as long as a value is to the greatest."""
    return "█" * round(_WIDTH / 2 * value / most) if most else ""


def svg(found: Sequence[Mapping[str, Any]]) -> str:
    """Draw the curve of days and freed bytes as a picture; "" when there are not two points.

    Args:
        found: as `Foreseen.to_json` gives it.
    """
    line = points(found)
    if len(line) < 2:
        return ""
    place = _scale(line)
    dots = [(*place(days, size), days, size) for days, size in line]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in dots)
    base = _SVG["height"] - _SVG["bottom"]
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{days} days: {size_text(size)}</title></circle>'
        f'<text x="{x:.1f}" y="{base + 16}" text-anchor="middle">{days}</text>'
        for x, y, days, size in dots
    )
    most = max(size for _, size in line)
    return (
        f'<svg viewBox="0 0 {_SVG["width"]} {_SVG["height"]}" role="img" font-size="11" fill="currentColor"'
        ' style="max-width: 640px">'
        "<title>Bytes that rules of so many days would free</title>"
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5"/>{marks}'
        f'<line x1="{_SVG["left"]}" x2="{_SVG["width"] - _SVG["right"]}" y1="{base}" y2="{base}" stroke="currentColor"'
        ' stroke-opacity="0.4"/>'
        f'<text x="{_SVG["left"] - 8}" y="{_SVG["top"] + 4}" text-anchor="end">{size_text(most)}</text>'
        f'<text x="{_SVG["left"] - 8}" y="{base + 4}" text-anchor="end">0 B</text>'
        f'<text x="{_SVG["width"] - _SVG["right"]}" y="{_SVG["height"] - 4}" text-anchor="end">days kept</text></svg>'
    )


def _scale(line: Sequence[tuple[int, int]]) -> Any:
    first, last = line[0][0], line[-1][0]
    most = max(1, *(size for _, size in line))
    across = _SVG["width"] - _SVG["left"] - _SVG["right"]
    down = _SVG["height"] - _SVG["top"] - _SVG["bottom"]

    def place(days: int, size: int) -> tuple[float, float]:
        x = _SVG["left"] + across * (days - first) / max(1, last - first)
        return x, _SVG["top"] + down * (1 - size / most)

    return place
