"""Apply a plan to a repository of spec 2 through the library, and compare what it did with what was planned.

Each change of the repo info keeps the state before it in `overwritten/`, so the comparison is exact even when
commits arrive meanwhile: the expiration's own before and after are read back, the plan is made again for that
before, and must give that after, snapshot by snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.icechunk.expiration.in_place import Applied, Operation
from dredge.icechunk.expiration.plan import ExpirationPlan, plan_expiration
from dredge.icechunk.format.repo_info import OVERWRITTEN, REPO_KEY, RepoInfo, parse_repo_info
from dredge.icechunk.history import History, Ref
from dredge.icechunk.repository import history_of, read_history, with_restamped
from dredge.runs.failures import partial_after
from dredge.storage import ObjectReader

NAMED_AT_MOST = 20


class OutcomeDiffersError(RefusedError):
    """An expiration did something else than its plan said; collect nothing before it is understood."""

    kind = "outcome_differs"


@dataclass(frozen=True, slots=True)
class _Run:
    """An expiration as the repository recorded it."""

    before: History
    after: History
    newest: Operation | None


type Expire = Callable[[datetime, bool, bool], set[str]]


def expire_by_library(
    reader: ObjectReader,
    expire: Expire,
    threshold: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    approved_digest: str | None = None,
    kept_refs: Callable[[History], Collection[str]] = lambda _: (),
    delete_ref: Callable[[Ref], None] | None = None,
) -> Applied:
    """Plan an expiration of spec 2, let the library do it, and compare.

    Args:
        reader: on the repository.
        expire: the library's call: (threshold, delete branches, delete tags) → released ids.
        threshold: aware; snapshots strictly older are expired.
        delete_expired_branches: delete branches whose tip is expired; never main.
        delete_expired_tags: delete tags whose tip is expired.
        approved_digest: apply this plan and no other; a repository that changed since is refused.
        kept_refs: labels of the refs of a history that are not deleted.
        delete_ref: deletes one ref; with it, expired refs are deleted by name before the library expires, and the
            library deletes none.

    Raises:
        RefusedError: the approved plan no longer fits, or the repository is not online.
        PartialError: the library expired, and its record cannot be read for lack of rights.
        OutcomeDiffersError: the library's result is not the plan's, or goes beyond what was approved; names the
            snapshots.
    """
    history = read_history(reader)
    if history.spec_version != 2:
        raise ConfigError(f"{reader.uri}: has spec version {history.spec_version}, not 2")
    if history.availability != "online":
        raise RefusedError(f"{reader.uri}: the repository is {history.availability}. Nothing was changed.")

    def plan_for(state: History) -> ExpirationPlan:
        return plan_expiration(
            state,
            threshold,
            rule="spec_v2",
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
            kept_refs=kept_refs(state),
        )

    plan = plan_for(history)
    if approved_digest is not None and plan.digest != approved_digest:
        raise RefusedError(
            f"{reader.uri}: changed since the plan {approved_digest[:12]} was approved. Nothing was changed."
            " Plan and approve again."
        )
    if plan.is_empty:
        return Applied(plan, (), ())
    asked, gone = plan, plan.refs_deleted
    before: Operation | None = None
    if delete_ref is not None and gone:
        before = _newest(parse_repo_info(reader.get(REPO_KEY)))
        for ref in gone:
            delete_ref(ref)
        plan = plan_for(read_history(reader))
        if plan.is_empty:
            return Applied(asked, (), gone, before=before)
    by_library = delete_ref is None
    released = expire(threshold, delete_expired_branches and by_library, delete_expired_tags and by_library)
    with partial_after(
        lambda: f"The library's expiration ran and released {len(released):,} snapshots before."
    ):
        run = _recorded(reader)
    unapproved: list[str] = []
    if run.before.digest != plan.before.digest:
        plan = plan_for(run.before)
    if approved_digest is not None and plan is not asked:
        unapproved = _beyond(plan, asked)
    differences = differ(plan, run.after, released)
    if differences:
        shown = "; ".join(differences[:NAMED_AT_MOST])
        raise OutcomeDiffersError(
            f"{reader.uri}: the library's expiration differs from its plan in {len(differences)} places:"
            f" {shown}."
            " No object was deleted by it. Do not collect before this is understood."
        )
    if unapproved:
        raise OutcomeDiffersError(
            f"{reader.uri}: the repository changed in the moment before the library expired it. It also released"
            f" {', '.join(unapproved[:NAMED_AT_MOST])} ({len(unapproved)} in all), which nobody approved. No object"
            " was deleted by it. Do not collect before this is understood."
        )
    return Applied(
        plan,
        tuple(edit.snapshot for edit in plan.edits),
        plan.refs_deleted or gone,
        before=before or run.newest,
    )


def _beyond(plan: ExpirationPlan, approved: ExpirationPlan) -> list[str]:
    """What a plan releases or deletes that the approved one did not."""
    refs = {ref.label for ref in plan.refs_deleted} - {ref.label for ref in approved.refs_deleted}
    return sorted({*plan.released} - {*approved.released}) + sorted(refs)


def differ(plan: ExpirationPlan, after: History, released: set[str]) -> list[str]:
    """Compare an outcome with a plan; gives a sentence a difference."""
    found = []
    for snapshot in sorted(released ^ set(plan.released)):
        found.append(f"{snapshot} was {'released' if snapshot in released else 'not released'}")
    for snapshot in sorted(set(after.snapshots) ^ set(plan.after.snapshots)):
        found.append(
            f"{snapshot} is {'still' if snapshot in after.snapshots else 'no longer'} in the history"
        )
    for snapshot in sorted(set(after.snapshots) & set(plan.after.snapshots)):
        real, planned = after.snapshots[snapshot], plan.after.snapshots[snapshot]
        if real.parent_id != planned.parent_id:
            found.append(f"{snapshot} has the parent {real.parent_id}, planned was {planned.parent_id}")
        elif real.pruned != planned.pruned:
            found.append(f"{snapshot} keeps other transaction logs than planned")
        elif real.flushed_at != planned.flushed_at:
            found.append(f"{snapshot} changed its time")
    for label in sorted({ref.label for ref in after.refs} ^ {ref.label for ref in plan.after.refs}):
        found.append(f"{label} is {'still there' if label in {ref.label for ref in after.refs} else 'gone'}")
    return found


def _recorded(reader: ObjectReader) -> _Run:
    info = parse_repo_info(reader.get(REPO_KEY))
    place = next((row for row, update in enumerate(info.updates) if update.kind == "expiration ran"), None)
    if place is None:
        raise FormatError(f"{reader.uri}/{REPO_KEY}: records no expiration, though one just ran")
    older = info.updates[place + 1].backup if place + 1 < len(info.updates) else info.before_updates
    after = info if place == 0 else _backup(reader, info.updates[place].backup)
    before = _backup(reader, older)
    return _Run(with_restamped(reader, history_of(before)), history_of(after), _newest(before))


def _newest(info: RepoInfo) -> Operation | None:
    return (info.updates[0].kind, info.updates[0].updated_at) if info.updates else None


def _backup(reader: ObjectReader, name: str | None) -> RepoInfo:
    if name is None:
        raise FormatError(f"{reader.uri}/{REPO_KEY}: names no backup of the state before the expiration")
    key = OVERWRITTEN + name
    return parse_repo_info(reader.get(key), key)
