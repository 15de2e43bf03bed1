"""A plan as an SVG picture: the history before, and after. Time goes from left to right, a lane a fork.

This module computes where things go; `templates/plan.svg.j2` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from dredge.icechunk.expiration.layout import HELD, KEPT, RELEASED, Item, Marks, lay_out
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.expiration.tree import marks_of
from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.history import History
from dredge.runs.pages import render

STEP, LANE, MARGIN, LEGEND = 64, 62, 36, 28
ITEMS_MAX = 500
_TEMPLATE = Path(__file__).parent / "templates" / "plan.svg.j2"
_LEGEND = ((KEPT, "kept"), (RELEASED, "released"), (HELD, "expired, held by a ref"))


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from a parent to a child: a curve to (`bend`, `y2`) by way of `middle`, then straight on to `x2`."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def bend(self) -> int:
        """Where the line has reached the child's lane."""
        return min(self.x1 + STEP, self.x2)

    @property
    def middle(self) -> int:
        """Half the way to the bend."""
        return (self.x1 + self.bend) // 2


@dataclass(frozen=True, slots=True)
class Panel:
    """One history; pixels count from its own corner.

    Attributes:
        title: above the drawing.
        note: instead of one, where there is too much to draw.
        items: each with the place of its centre.
        top: where the panel begins in the picture.
    """

    title: str
    width: int
    height: int
    note: str = ""
    edges: tuple[Edge, ...] = ()
    items: tuple[tuple[Item, int, int], ...] = ()
    top: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the template draws; sizes in pixels."""

    panels: tuple[Panel, Panel]
    width: int
    height: int
    legend: list[tuple[str, str, int]] = field(default_factory=list)
    legend_end: int = 16

    @property
    def legend_top(self) -> int:
        """Where the legend begins."""
        return self.height - LEGEND


def draw_picture(plan: ExpirationPlan, *, fold_above: int = 4) -> str:
    """Draw a plan.

    Args:
        plan: what to draw.
        fold_above: longer runs of plain snapshots become one circle with their number.

    Returns:
        An SVG document that stands alone; also fit to be put into a page. Histories of more than 500 items
        say so instead of drawing them.
    """
    return render(_TEMPLATE, picture=picture_of(plan, fold_above=fold_above), written=written)


def picture_of(plan: ExpirationPlan, *, fold_above: int = 4) -> Picture:
    """Compute what `draw_picture` draws."""
    marks, left = marks_of(plan)
    before = _panel("before", plan.before, marks, fold_above)
    after = replace(_panel("after", plan.after, left, fold_above), top=before.height)
    legend = []
    x = 16
    for mark, words in _LEGEND:
        legend.append((mark, words, x))
        x += 34 + 7 * len(words)
    return Picture(
        panels=(before, after),
        width=max(before.width, after.width, 520),
        height=before.height + after.height + LEGEND,
        legend=legend,
        legend_end=x,
    )


def written(entry: SnapshotEntry) -> str:
    """When a snapshot was written, in ISO 8601."""
    return instant(entry.flushed_at).isoformat()


def _panel(name: str, history: History, marks: Marks, fold_above: int) -> Panel:
    items = lay_out(history, marks, fold_above=fold_above)
    title = f"{name}: {len(history.snapshots):,} snapshots"
    if len(items) > ITEMS_MAX:
        return Panel(title, 520, 60, note=f"{len(items):,} items are too many to draw; see the text")
    order = sorted(range(len(items)), key=lambda row: (items[row].entry.flushed_at, row))
    left = {row: MARGIN + STEP * rank for rank, row in enumerate(order)}
    lanes = {column: lane for lane, column in enumerate(dict.fromkeys(item.column for item in items))}
    spots = [(left[row], 62 + LANE * lanes[item.column]) for row, item in enumerate(items)]
    return Panel(
        title,
        width=2 * MARGIN + STEP * len(items) + 60,
        height=62 + LANE * max(1, len(lanes)),
        edges=tuple(_edges(items, spots)),
        items=tuple((item, *spot) for item, spot in zip(items, spots, strict=True)),
    )


def _edges(items: list[Item], spots: list[tuple[int, int]]) -> list[Edge]:
    """Join each item to its parent, or to the one before it in its column where the parent is folded away."""
    place = {item.entry.id: spot for item, spot in zip(items, spots, strict=True)}
    edges = []
    last_of_column: dict[int, tuple[int, int]] = {}
    for item, spot in zip(items, spots, strict=True):
        parent = place.get(item.entry.parent_id or "")
        source = last_of_column.get(item.column) if parent is None and not item.opens else parent
        last_of_column[item.column] = spot
        if source is not None and item.entry.parent_id is not None:
            edges.append(Edge(*source, *spot))
    return edges
