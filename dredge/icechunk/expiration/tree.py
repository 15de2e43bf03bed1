"""A history as text: one line a snapshot, forks as columns.

    ● 0  2026-01-01 00:00:00  Repository initialized
    × 1  2026-01-02 00:00:00  first
    ├─○ 3  2026-01-03 00:00:00  second  [tag v1]
    │ ● 4  2026-01-09 00:00:00  third  [side]  gets the parent 0
    ● 5  2026-01-10 00:00:00  fourth  [main]  gets the parent 0

`●` kept, `×` released, `○` expired but held by a ref, `⋮` folded.
"""

from __future__ import annotations

from dredge.icechunk.expiration.layout import HELD, RELEASED, Item, Marks, lay_out
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.format.snapshots import instant, micros
from dredge.icechunk.history import History

MESSAGE_MAX = 40


def draw_history(history: History, marks: Marks | None = None, *, fold_above: int = 5) -> str:
    """Draw a history.

    Args:
        history: what to draw.
        marks: what a plan says about it; None draws everything as kept.
        fold_above: longer runs of plain snapshots are folded.
    """
    return "\n".join(_line(item) for item in lay_out(history, marks or Marks(), fold_above=fold_above))


def draw_plan(plan: ExpirationPlan, *, fold_above: int = 5) -> str:
    """Draw the history before and after a plan."""
    marks, left = marks_of(plan)
    before = draw_history(plan.before, marks, fold_above=fold_above)
    after = draw_history(plan.after, left, fold_above=fold_above)
    return f"before\n{before}\n\nafter\n{after}\n"


def marks_of(plan: ExpirationPlan) -> tuple[Marks, Marks]:
    """Give what a plan says about the snapshots before it, and about those after it."""
    threshold = micros(plan.threshold)
    expired = {
        entry.id
        for entry in plan.before.snapshots.values()
        if entry.parent_id is not None and entry.flushed_at < threshold
    }
    held = frozenset(expired & plan.after.reachable())
    edits = {edit.snapshot: edit.new_parent for edit in plan.edits}
    return Marks(held | frozenset(plan.released), held, edits), Marks(held, held)


def _line(item: Item) -> str:
    bars = "│ " * (item.depth - 1) + "├─" if item.opens else "│ " * item.depth
    if item.hidden:
        return f"{bars}⋮ {item.hidden:,} more"
    symbol = {RELEASED: "×", HELD: "○"}.get(item.mark, "●")
    words = [f"{bars}{symbol} {item.entry.id}", instant(item.entry.flushed_at).strftime("%Y-%m-%d %H:%M:%S")]
    message = item.entry.message.splitlines()[0] if item.entry.message else ""
    words.append(message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 1] + "…")
    words += [f"[{', '.join(item.refs)}]"] if item.refs else []
    words += [f"gets the parent {item.new_parent}"] if item.new_parent else []
    return "  ".join(word for word in words if word)
