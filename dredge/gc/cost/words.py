"""Figures of cost for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dredge.gc.cost.prices import monthly
from dredge.runs.words import size_text

_ROWS_MAX = 20


def cost_lines(
    cost: Mapping[str, Any], price: float | None = None, rows_max: int = _ROWS_MAX
) -> Iterator[str]:
    """Word what `Cost.tables` gives.

    Args:
        cost: the figures.
        price: of a GiB for a month; None words no money.
        rows_max: rows of a table.
    """
    yield from _table("KIND", cost["kinds"], "kind", price, len(cost["kinds"]), "why")
    tables = (
        ("ONLY ON BRANCH", "branches", "branch", "nothing else keeps it: it would go with the branch"),
        ("OF NO HEAD, BY AGE", "ages", "age", "age of the newest commit that keeps it"),
        ("BELOW", "prefixes", "prefix", ""),
    )
    for title, name, column, about in tables:
        if cost[name]:
            yield ""
            yield from _table(title, cost[name], column, price, rows_max, about=about)
    for note in cost["notes"]:
        yield f"* {note}"


def _table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    column: str,
    price: float | None,
    rows_max: int,
    why: str = "",
    about: str = "",
) -> Iterator[str]:
    names = [row[column] or "(root)" for row in rows]
    width = max(len(name) for name in [title, *names[:rows_max]]) + 2
    yield (
        f"{title:<{width}}{'OBJECTS':>12}{'SIZE':>12}{'A MONTH':>12}  {about}".rstrip()
        if price
        else (f"{title:<{width}}{'OBJECTS':>12}{'SIZE':>12}  {about}".rstrip())
    )
    for name, row in list(zip(names, rows, strict=True))[:rows_max]:
        money = "" if price is None else f"{monthly(row['size_bytes'], price):>12,.2f}"
        more = row.get(why, "")
        if "alone" in row:
            more = f"{row['alone']['objects']:,} of them in one commit alone"
        yield f"{name:<{width}}{row['objects']:>12,}{size_text(row['size_bytes']):>12}{money}  {more}".rstrip()
    if len(rows) > rows_max:
        yield f"… and {len(rows) - rows_max:,} more"
