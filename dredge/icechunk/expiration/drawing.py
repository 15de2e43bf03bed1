"""Drawings of a history and of a plan as text, page and files.

Roots are on top. The child on the path to main (or the newest child) stays in its parent's column; other children get
columns of their own and are drawn first. Long sequences of plain snapshots are folded into one item.

    ● 0  2026-01-01 00:00:00  Repository initialized
    × 1  2026-01-02 00:00:00  first
    ├─○ 3  2026-01-03 00:00:00  second  [tag v1]
    │ ● 4  2026-01-09 00:00:00  third  [side]  gets the parent 0
    ● 5  2026-01-10 00:00:00  fourth  [main]  gets the parent 0

`●` kept, `×` released, `○` expired but held by a ref, `⋮` folded.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.format.metadata import SnapshotEntry, instant, micros
from dredge.icechunk.history import MAIN, History
from dredge.runs.report import render, size_text

KEPT, RELEASED, HELD = "kept", "released", "held"

MESSAGE_MAX = 40
ROWS_MAX = 2_000  # of a table, and lines of the history; plan.json and plan.txt have all


class Marks(Struct, frozen=True):
    """Released, held and edited snapshots of a plan."""

    released: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    new_parent: dict[str, str] | None = None

    def of(self, snapshot: str) -> str:
        """Return KEPT, RELEASED or HELD."""
        if snapshot in self.held:
            return HELD
        return RELEASED if snapshot in self.released else KEPT


class Item(Struct, frozen=True):
    """A snapshot in the drawing, or a folded sequence."""

    entry: SnapshotEntry
    depth: int
    column: int
    opens: bool
    mark: str
    refs: tuple[str, ...]
    new_parent: str | None
    hidden: int = 0


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


def draw_history(history: History, marks: Marks | None = None, *, fold_above: int = 5) -> str:
    """Draw a history."""
    children = history.children()
    forks = {node for node, below in children.items() if len(below) != 1}
    items = _folded(_placed(history, marks or Marks(), children), forks, fold_above)
    return "\n".join(map(_line, items))


def draw_plan(plan: ExpirationPlan, *, fold_above: int = 5) -> str:
    """Draw the histories before and after a plan."""
    marks, left = marks_of(plan)
    before = draw_history(plan.before, marks, fold_above=fold_above)
    after = draw_history(plan.after, left, fold_above=fold_above)
    return f"before\n{before}\n\nafter\n{after}\n"


def marks_of(plan: ExpirationPlan) -> tuple[Marks, Marks]:
    """Return the marks for the histories before and after a plan."""
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


_TEMPLATE = Path(__file__).parent / "templates" / "plan.html.j2"


def plan_page(uri: str, plan: ExpirationPlan) -> str:
    """Draw a plan as a self-contained HTML document."""
    return render(
        _TEMPLATE,
        title=f"Expiration plan of {uri}",
        headline=_headline(plan),
        facts=list(_facts(plan)),
        history=draw_plan(plan),
        refs=[
            (change.ref.label, change.action, change.reason, change.snapshots_before, change.snapshots_after)
            for change in plan.refs
        ],
        edits=[(edit.snapshot, edit.old_parent, edit.new_parent) for edit in plan.edits],
        rows_max=ROWS_MAX,
    )


def _headline(plan: ExpirationPlan) -> str:
    if plan.is_empty:
        return "There is no expired snapshot in the history."
    return (
        f"{len(plan.released):,} snapshots would be released, {len(plan.edits):,} would get another parent,"
        f" {len(plan.refs_deleted):,} refs would be deleted. The plan itself changes nothing."
    )


def _facts(plan: ExpirationPlan) -> Iterator[tuple[str, str]]:
    yield "Rule", plan.rule
    yield "Older than", f"{plan.threshold:%Y-%m-%d %H:%M:%S.%f} UTC"
    yield "Delete expired branches", "yes" if plan.delete_expired_branches else "no"
    yield "Delete expired tags", "yes" if plan.delete_expired_tags else "no"
    yield "Snapshots", f"{len(plan.before.snapshots):,} before, {len(plan.after.snapshots):,} after"
    if plan.frees is not None:
        yield (
            "A collection would free",
            f"{plan.frees.snapshots:,} snapshots, {plan.frees.transaction_logs:,} transaction logs,"
            f" {plan.frees.manifests:,} manifests, {plan.frees.chunks:,} chunks:"
            f" {size_text(plan.frees.size_bytes)}",
        )
        if plan.frees.all_old_at is not None:
            yield (
                "Of these, still too young",
                f"{plan.frees.young_objects:,} objects, {size_text(plan.frees.young_bytes)}; the last one reaches the"
                f" minimum age at {plan.frees.all_old_at:%Y-%m-%d %H:%M} UTC",
            )
    yield "Digest for the approval of this plan", plan.digest
