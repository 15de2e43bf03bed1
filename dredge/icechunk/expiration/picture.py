"""A plan as an SVG picture: the history before, and after. Time goes from left to right, a lane a fork."""

from __future__ import annotations

from html import escape

from dredge.icechunk.expiration.layout import HELD, KEPT, RELEASED, Item, Marks, lay_out
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.expiration.tree import marks_of
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.history import History

STEP, LANE, MARGIN, LEGEND = 64, 62, 36, 28
ITEMS_MAX = 500

_STYLE = """
.dredge-history{font:12px system-ui,sans-serif;color-scheme:light dark}
.dredge-history text{fill:light-dark(#1f2933,#e4e7eb)}
.dredge-history .title{font-weight:600;font-size:14px}
.dredge-history .small{font-size:10px;fill:light-dark(#616e7c,#9aa5b1)}
.dredge-history path{fill:none;stroke:light-dark(#9aa5b1,#616e7c);stroke-width:2}
.dredge-history .kept{fill:#2f80c3;stroke:#2f80c3}
.dredge-history .released{fill:light-dark(#fff,#1f2933);stroke:#c0504d;stroke-dasharray:3 2}
.dredge-history .held{fill:light-dark(#fff,#1f2933);stroke:#d9892b}
.dredge-history .edited{fill:none;stroke:#3c9d5d;stroke-width:2}
.dredge-history .ref{fill:light-dark(#e0edf8,#243b53)}
"""


def draw_picture(plan: ExpirationPlan, *, fold_above: int = 4) -> str:
    """Draw a plan.

    Args:
        plan: what to draw.
        fold_above: longer runs of plain snapshots become one circle with their number.

    Returns:
        An SVG document that stands alone; also fit to be put into a page. Histories of more than 500 items
        say so instead of drawing them.
    """
    marks, left = marks_of(plan)
    before = _panel("before", plan.before, marks, fold_above)
    after = _panel("after", plan.after, left, fold_above)
    width = max(before.width, after.width, 520)
    height = before.height + after.height + LEGEND
    body = before.at(0) + after.at(before.height) + _legend(before.height + after.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dredge-history" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="history before and after expiration">'
        f"<style>{_STYLE}</style>{body}</svg>\n"
    )


class _Panel:
    def __init__(self, parts: list[str], width: int, height: int) -> None:
        self.parts, self.width, self.height = parts, width, height

    def at(self, y: int) -> str:
        return f'<g transform="translate(0 {y})">{"".join(self.parts)}</g>'


def _panel(title: str, history: History, marks: Marks, fold_above: int) -> _Panel:
    items = lay_out(history, marks, fold_above=fold_above)
    head = f'<text class="title" x="12" y="22">{title}: {len(history.snapshots):,} snapshots</text>'
    if len(items) > ITEMS_MAX:
        note = f"{len(items):,} items are too many to draw; see the text"
        return _Panel([head, f'<text class="small" x="12" y="42">{note}</text>'], 520, 60)
    order = sorted(range(len(items)), key=lambda row: (items[row].entry.flushed_at, row))
    left = {row: MARGIN + STEP * rank for rank, row in enumerate(order)}
    lanes = {column: lane for lane, column in enumerate(dict.fromkeys(item.column for item in items))}
    spots = [(left[row], 62 + LANE * lanes[item.column]) for row, item in enumerate(items)]
    place = {item.entry.id: spot for item, spot in zip(items, spots, strict=True)}
    edges, circles = [], []
    last_of_column: dict[int, tuple[int, int]] = {}
    for item, spot in zip(items, spots, strict=True):
        parent = place.get(item.entry.parent_id or "")
        source = last_of_column.get(item.column) if parent is None and not item.opens else parent
        source = source if item.entry.parent_id is not None else None
        last_of_column[item.column] = spot
        if source is not None:
            edges.append(_edge(source, spot))
        circles.append(_circle(item, *spot))
    return _Panel(
        [head, *edges, *circles],
        2 * MARGIN + STEP * len(items) + 60,
        62 + LANE * max(1, len(lanes)),
    )


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    # Down to the target's lane within one step, then along it: long edges do not cross other lanes slantwise.
    (x1, y1), (x2, y2) = source, target
    bend = min(x1 + STEP, x2)
    middle = (x1 + bend) // 2
    return f'<path d="M{x1} {y1}C{middle} {y1} {middle} {y2} {bend} {y2}H{x2}"/>'


def _circle(item: Item, x: int, y: int) -> str:
    entry = item.entry
    if item.hidden:
        return (
            f'<circle class="{item.mark}" cx="{x}" cy="{y}" r="13" opacity=".85"/>'
            f'<text x="{x}" y="{y + 28}" text-anchor="middle" class="small">+{item.hidden:,}</text>'
        )
    told = f"{entry.id}\n{instant(entry.flushed_at).isoformat()}\n{entry.message}"
    parts = [f"<g><title>{escape(told)}</title>"]
    if item.new_parent:
        parts.append(f'<circle class="edited" cx="{x}" cy="{y}" r="12"/>')
    parts.append(f'<circle class="{item.mark}" cx="{x}" cy="{y}" r="8" stroke-width="2"/>')
    short = entry.id if len(entry.id) <= 6 else entry.id[:6]
    parts.append(f'<text x="{x}" y="{y + 24}" text-anchor="middle" class="small">{escape(short)}</text>')
    if item.refs:
        label = escape(", ".join(item.refs))
        wide = 10 + 6 * len(", ".join(item.refs))
        parts.append(f'<rect class="ref" x="{x - 10}" y="{y - 32}" width="{wide}" height="17" rx="4"/>')
        parts.append(f'<text x="{x - 5}" y="{y - 19}" style="font-size:11px">{label}</text>')
    return "".join(parts) + "</g>"


def _legend(y: int) -> str:
    parts = []
    x = 16
    for mark, words in ((KEPT, "kept"), (RELEASED, "released"), (HELD, "expired, held by a ref")):
        parts.append(f'<circle class="{mark}" cx="{x}" cy="{y + 10}" r="6" stroke-width="2"/>')
        parts.append(f'<text x="{x + 12}" y="{y + 14}">{words}</text>')
        x += 34 + 7 * len(words)
    parts.append(f'<circle class="edited" cx="{x}" cy="{y + 10}" r="7"/>')
    parts.append(f'<text x="{x + 14}" y="{y + 14}">gets another parent</text>')
    return "".join(parts)
