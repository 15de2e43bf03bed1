"""Where each snapshot of a history goes in a drawing.

Roots are on top. The child that leads to main (or the newest one) goes on in its parent's column; the others
open columns of their own, drawn before it. Long runs of snapshots with nothing to tell are folded into one
item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dredge.icechunk.format.repo_info import SnapshotEntry
from dredge.icechunk.history import MAIN, History

KEPT, RELEASED, HELD = "kept", "released", "held"


@dataclass(frozen=True, slots=True)
class Marks:
    """What a plan says about the snapshots of a history.

    Args:
        released: expired.
        held: of those, the ones that a ref keeps.
        new_parent: by edited snapshot.
    """

    released: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    new_parent: dict[str, str] | None = None

    def of(self, snapshot: str) -> str:
        """Give KEPT, RELEASED or HELD."""
        if snapshot in self.held:
            return HELD
        return RELEASED if snapshot in self.released else KEPT


@dataclass(frozen=True, slots=True)
class Item:
    """One snapshot in the drawing, or a folded run.

    Args:
        entry: the snapshot; of a folded run its oldest.
        depth: its column.
        column: a number for its column's block, one for each fork.
        opens: it is the first of a column that forks off.
        mark: KEPT, RELEASED or HELD.
        refs: labels of the refs that point here.
        new_parent: the parent that the plan gives it.
        hidden: how many snapshots are folded here; 0 for a single one.
    """

    entry: SnapshotEntry
    depth: int
    column: int
    opens: bool
    mark: str
    refs: tuple[str, ...]
    new_parent: str | None
    hidden: int = 0


def lay_out(history: History, marks: Marks, *, fold_above: int = 5) -> list[Item]:
    """Place the snapshots of a history.

    Args:
        history: what to draw.
        marks: what a plan says about it.
        fold_above: runs of more plain snapshots than this are folded to first, fold, last.
    """
    children = history.children()
    forks = {node for node, below in children.items() if len(below) != 1}
    return list(_folded(_placed(history, marks, children), forks, fold_above))


def _placed(history: History, marks: Marks, children: dict[str | None, list[str]]) -> Iterator[Item]:
    labels: dict[str, list[str]] = {}
    for ref in history.refs:
        labels.setdefault(ref.tip, []).append(ref.name if ref.kind == "branch" else f"tag {ref.name}")
    main = set(history.ancestry(history.branches[MAIN])) if MAIN in history.branches else set()
    edits = marks.new_parent or {}
    columns = 0
    for root in children.get(None, []):
        stack = [(root, 0, columns, False)]
        columns += 1
        while stack:
            node, depth, column, opens = stack.pop()
            refs = tuple(sorted(labels.get(node, ())))
            entry = history.snapshots[node]
            yield Item(entry, depth, column, opens, marks.of(node), refs, edits.get(node))
            below = children.get(node, [])
            if not below:
                continue
            onward = next((child for child in below if child in main), below[-1])
            stack.append((onward, depth, column, False))
            for child in reversed([child for child in below if child != onward]):
                stack.append((child, depth + 1, columns, True))
                columns += 1


def _folded(items: Iterable[Item], forks: set[str | None], fold_above: int) -> Iterator[Item]:
    run: list[Item] = []
    for item in items:
        plain = not (item.refs or item.new_parent or item.opens or item.entry.id in forks)
        plain = plain and item.entry.parent_id is not None
        joins = run and (item.column, item.mark) == (run[-1].column, run[-1].mark)
        if not (plain and (joins or not run)):
            yield from _fold(run, fold_above)
            run = []
        if plain:
            run.append(item)
        else:
            yield item
    yield from _fold(run, fold_above)


def _fold(run: list[Item], fold_above: int) -> Iterator[Item]:
    if len(run) <= max(3, fold_above):
        yield from run
        return
    first, middle = run[0], run[1]
    yield first
    yield Item(middle.entry, middle.depth, middle.column, False, middle.mark, (), None, hidden=len(run) - 2)
    yield run[-1]
