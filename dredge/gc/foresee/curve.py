"""What rules would free, as a table for the terminal and as a curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dredge.gc.foresee.proposals import points
from dredge.runs.curve import place_curve
from dredge.runs.words import number_of, size_text

_BAR_WIDTH = 24


def table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw what proposals would free as a table, and as bars.

    Args:
        found: as JSON of `Foreseen`.
    """
    most = max((item["freed"]["size_bytes"] for item in found), default=0)
    width = max([5, *(len(item["proposal"]["name"]) for item in found)]) + 2
    yield f"{'rules':<{width}}{'commits':>9}{'freed':>12}{'bytes':>11}{'more than now':>15}{'may be held':>13}"
    for item in found:
        name, freed = item["proposal"]["name"], item["freed"]
        about = item["bound"] and f"{item['bound']} "
        more = item["more"]["size_bytes"] - item["less"]["size_bytes"]
        yield (
            f"{name:<{width}}{item['commits']:>9,}{about + format(freed['objects'], ','):>12}"
            f"{size_text(freed['size_bytes']):>11}{('-' if more < 0 else '') + size_text(abs(more)):>15}"
            f"{item['held']['objects']:>13,}  {bar(freed['size_bytes'], most)}"
        )
    for item in {item["unknown"]: item for item in found if item["unknown"]}.values():
        yield f"{item['bound']} {item['unknown']}"


def bar(value: int, most: int) -> str:
    """A bar as long as a value is to the greatest."""
    return "█" * round(_BAR_WIDTH * value / most) if most else ""


def curve_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Place the curve of days and freed bytes for `dredge.runs.curve`; None when there are not two points.

    Args:
        found: as JSON of `Foreseen`.
    """
    line = points(found)
    if len(line) < 2:
        return None
    marks = [(days, size, f"{number_of(days, 'day')}: {size_text(size)}") for days, size in line]
    return place_curve(marks, "Bytes that rules of so many days would free", "days kept", size_text)
