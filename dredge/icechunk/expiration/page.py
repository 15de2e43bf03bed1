"""A plan as a page: what would go, the history before and after as a picture, what becomes of every ref."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dredge.icechunk.expiration.picture import draw_picture
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.runs.report import size_text

REFS_MAX = 2_000

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .3rem .8rem; vertical-align: top; }
th { border-bottom: 2px solid var(--line); } td { border-bottom: 1px solid var(--line); }
code { background: var(--soft); padding: .1rem .3rem; border-radius: .3rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; } dt { opacity: .7; } dd { margin: 0; }
.picture { overflow-x: auto; }
"""


def plan_page(uri: str, plan: ExpirationPlan) -> str:
    """Draw a plan as an HTML document that stands alone.

    Args:
        uri: the repository.
        plan: what to show.
    """
    title = f"Expiration plan of {escape(uri)}"
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(plan))
    refs = [
        (change.ref.label, change.action, change.reason, change.snapshots_before, change.snapshots_after)
        for change in plan.refs
    ]
    edits = [(edit.snapshot, edit.old_parent, edit.new_parent) for edit in plan.edits]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{escape(_headline(plan))}</p>\n"
        f'<dl>{facts}</dl>\n<h2>History</h2>\n<div class="picture">{draw_picture(plan)}</div>\n'
        f"<h2>Refs</h2>\n{_table(('Ref', 'What happens', 'Why', 'Snapshots', 'Afterwards'), refs)}\n"
        f"<h2>Snapshots that get another parent</h2>\n{_table(('Snapshot', 'Parent', 'New parent'), edits)}\n"
        "</body></html>\n"
    )


def _headline(plan: ExpirationPlan) -> str:
    if plan.is_empty:
        return "Nothing is to be done: no snapshot would leave the history."
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
    yield "Digest, to approve exactly this", plan.digest


def _table(head: Iterable[str], rows: Sequence[tuple[object, ...]]) -> str:
    if not rows:
        return "<p>None.</p>"
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>\n"
        for row in rows[:REFS_MAX]
    )
    left = len(rows) - REFS_MAX
    more = f"<p>{left:,} more are in <code>plan.json</code>.</p>" if left > 0 else ""
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>\n{shown}</table>{more}"
