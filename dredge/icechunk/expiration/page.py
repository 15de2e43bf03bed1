"""A plan as a page: what would go, the history before and after, what becomes of every ref."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.expiration.tree import draw_plan
from dredge.runs.rendering import render, size_text

ROWS_MAX = 2_000  # of a table, and lines of the history; plan.json and plan.txt have all
_TEMPLATE = Path(__file__).parent / "templates" / "plan.html.j2"


def plan_page(uri: str, plan: ExpirationPlan) -> str:
    """Draw a plan as an HTML document that stands alone.

    Args:
        uri: the repository.
        plan: what to show.
    """
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
        if plan.frees.all_old_at is not None:
            yield (
                "Of these, too young for now",
                f"{plan.frees.young_objects:,} objects, {size_text(plan.frees.young_bytes)}; the last one reaches the"
                f" minimum age at {plan.frees.all_old_at:%Y-%m-%d %H:%M} UTC",
            )
    yield "Digest, to approve exactly this", plan.digest
