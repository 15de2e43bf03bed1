"""The table and the curve of what rules would free."""

from __future__ import annotations

from typing import Any

from dredge.gc.insight.proposals import curve_of, table_lines


def row(days: int | None, size: int, exact: bool = True) -> dict[str, Any]:
    return {
        "proposal": {"name": "as now" if days is None else f"{days} days", "days": days},
        "commits": 3,
        "freed": {"objects": size, "size_bytes": size},
        "held": {"objects": 0, "size_bytes": 0},
        "more": {"objects": 0, "size_bytes": 0},
        "less": {"objects": size, "size_bytes": size},
        "bound": "" if exact else "≤",
        "unknown": "" if exact else "some may stay",
    }


def test_the_table_has_a_line_for_each_proposal_and_says_where_figures_are_bounds() -> None:
    lines = list(table_lines([row(7, 1000), row(30, 10, exact=False)]))
    assert len(lines) == 4
    assert lines[1].count("█") > 2 * lines[2].count("█")
    assert "≤ 10" in lines[2]


def test_the_curve_falls_from_left_to_right() -> None:
    curve = curve_of([row(30, 10), row(7, 1000), row(None, 500)])
    assert curve is not None
    left, right = curve["dots"]
    assert (left["place"], right["place"]) == (7, 30)
    assert left["x"] < right["x"]
    assert left["y"] < right["y"]


def test_one_point_is_no_curve() -> None:
    assert curve_of([row(7, 1), row(None, 5)]) is None
