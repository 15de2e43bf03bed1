"""Expire a repository: in place on spec 1, through the library on spec 2.

Each change of the repo info keeps the state before it in `overwritten/`, so the library's result is compared exactly
with the plan, even with commits in between: from the stored state before the expiration the plan is made again, and
its result must equal the stored state after it, snapshot by snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from dredge.errors import ConfigError, DredgeError, FormatError, RefusedError
from dredge.icechunk.collection.witness.record import note_released
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.in_place import Applied, expire_in_place
from dredge.icechunk.expiration.kept_refs import kept_refs
from dredge.icechunk.expiration.plan import ExpirationPlan, plan_expiration
from dredge.icechunk.expiration.stored import record_applied
from dredge.icechunk.format.repo_info import OVERWRITTEN, REPO_KEY, Operation, RepoInfo, parse_repo_info
from dredge.icechunk.history import History, Ref
from dredge.icechunk.library import delete_ref, expire_with_library, open_library
from dredge.icechunk.maintenance import open_state, right_to_work
from dredge.icechunk.repository import history_of, read_history, read_repo_info, spec_version, with_restamped
from dredge.runs.clock import CLOCK_SKEW_SECONDS_MAX, check_clocks, utc_now
from dredge.runs.failures import partial_after
from dredge.runs.lease import LeaseGrant
from dredge.storage import ObjectReader, StorageOptions, open_reader, open_writer, store_clock
from dredge.xid import new_xid

log = logging.getLogger("dredge")

NAMED_AT_MOST = 20


def expire(
    uri: str,
    expiration: Expiration,
    *,
    approved_digest: str | None = None,
    lease: LeaseGrant | None = None,
    options: StorageOptions | None = None,
) -> Applied:
    """Plan and apply an expiration, under the lease. It deletes no object.

    Raises:
        ConfigError: a rule without support for this spec, or a naive threshold.
        LeaseHeldError: another run works on the repository.
        RefusedError: the store's clock and this machine's differ too much; and see `expire_in_place` and
            `expire_by_library`.
        FormatError: an important file is missing or damaged.
    """
    reader = open_reader(uri, options)
    version, rule = spec_version(reader), expiration.rule

    def kept(history: History) -> frozenset[str]:
        return kept_refs(reader, history, expiration, utc_now())

    if version == 2 and rule not in (None, "spec_v2"):
        raise ConfigError(f"{uri}: rule {rule} can be planned but not applied on spec 2; use spec_v2")
    with right_to_work(uri, f"expiration {new_xid(utc_now())}", lease, options):
        # With a clock ahead, snapshots expire too early and young refs look old.
        ahead = (store_clock(open_state(uri, options), "") - utc_now()).total_seconds()
        check_clocks(ahead, CLOCK_SKEW_SECONDS_MAX)
        if version == 1:
            library = cache(lambda: open_library(uri, options))
            applied = expire_in_place(
                open_writer(uri, options),
                expiration.instant,
                rule=rule or "spec_v1",
                delete_expired_branches=expiration.delete_expired_branches,
                delete_expired_tags=expiration.delete_expired_tags,
                kept_refs=kept,
                approved_digest=approved_digest,
                before_refs=library,
                delete_ref=lambda ref: delete_ref(library(), ref),
            )
        else:
            repository = open_library(uri, options)
            applied = expire_by_library(
                reader,
                lambda older_than, branches, tags: expire_with_library(
                    repository, older_than, delete_branches=branches, delete_tags=tags
                ),
                expiration.instant,
                delete_expired_branches=expiration.delete_expired_branches,
                delete_expired_tags=expiration.delete_expired_tags,
                approved_digest=approved_digest,
                kept_refs=kept,
                # The library deletes all expired refs or none, so where some are kept they are deleted by name.
                delete_ref=(lambda ref: delete_ref(repository, ref))
                if expiration.keep_refs or expiration.keep_refs_younger_hours
                else None,
            )
        _note(uri, applied, options)
        return record_applied(uri, expiration, applied, utc_now(), options)


def _note(uri: str, applied: Applied, options: StorageOptions | None) -> None:
    # Without this record the next collection takes released snapshots for lost, and keeps them for now.
    released = applied.plan.before.live() - applied.plan.after.live()
    try:
        note_released(open_state(uri, options), released)
    except DredgeError as error:
        log.warning("%s: released snapshots could not be recorded, so they are kept longer: %s", uri, error)


class OutcomeDiffersError(RefusedError):
    """An expiration differs from its plan. Run no collection before the reason is found."""

    kind = "outcome_differs"


@dataclass(frozen=True, slots=True)
class _Run:
    """An expiration in the repository's record."""

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
    """Plan an expiration of spec 2, apply it through the library, and compare.

    Args:
        kept_refs: labels of refs never to delete.
        delete_ref: deletes one ref. Expired refs are deleted by name first, and the library deletes none.

    Raises:
        RefusedError: the approved plan is outdated, or the repository is not online.
        PartialError: the library expired, and the credentials do not allow to read its record.
        OutcomeDiffersError: the library's result differs from the plan, or goes beyond the approval; with the
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
        before = parse_repo_info(reader.get(REPO_KEY)).newest
        gone = _delete_refs(reader, gone, delete_ref)
        plan = plan_for(read_history(reader))
        if plan.is_empty:
            return Applied(plan, (), gone, before=before)
    by_library = delete_ref is None
    released = expire(threshold, delete_expired_branches and by_library, delete_expired_tags and by_library)
    with partial_after(
        lambda: f"Before that, the library's expiration released {len(released):,} snapshots."
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
            f"{reader.uri}: the library's expiration differs from its plan in {len(differences)} places: {shown}. It"
            " deleted no object. Run no collection before the reason is known."
        )
    if unapproved:
        raise OutcomeDiffersError(
            f"{reader.uri}: the repository changed right before the library's expiration, which also released"
            f" {', '.join(unapproved[:NAMED_AT_MOST])} ({len(unapproved)} in all) without approval. It deleted no"
            " object. Run no collection before the reason is known."
        )
    return Applied(
        plan,
        tuple(edit.snapshot for edit in plan.edits),
        plan.refs_deleted or gone,
        before=before or run.newest,
    )


def _delete_refs(
    reader: ObjectReader, refs: Collection[Ref], delete_ref: Callable[[Ref], None]
) -> tuple[Ref, ...]:
    """Delete refs by name and return the deleted ones; one that moved meanwhile stays.

    Raises:
        OutcomeDiffersError: a branch moved at the moment of its deletion.
    """
    gone = []
    for ref in refs:
        if ref not in history_of(read_repo_info(reader)).refs:
            log.info("%s: %s moved or was deleted since the plan, and is left alone", reader.uri, ref.label)
            continue
        delete_ref(ref)
        gone.append(ref)
        # The library deletes a name, wherever it leads by then.
        tip = _deleted_tip(reader, ref)
        if tip is not None and tip != ref.tip:
            raise OutcomeDiffersError(
                f"{reader.uri}: {ref.label} moved from {ref.tip} to {tip} while it was deleted. No object was deleted."
                f" Create the branch again on snapshot {tip}, then start the expiration again."
            )
    return tuple(gone)


def _deleted_tip(reader: ObjectReader, ref: Ref) -> str | None:
    """The tip of a ref right before its deletion; None if other operations hide the deletion already."""
    info = parse_repo_info(reader.get(REPO_KEY))
    for place, update in enumerate(info.updates):
        if update.kind == f"{ref.kind} deleted" and update.ref == ref.name:
            before = _backup(reader, _name_before(info, place))
            return (before.tags if ref.kind == "tag" else before.branches).get(ref.name)
    return None


def _name_before(info: RepoInfo, place: int) -> str | None:
    """Name of the copy with the state before an entry of the log."""
    return info.updates[place + 1].backup if place + 1 < len(info.updates) else info.before_updates


def _beyond(plan: ExpirationPlan, approved: ExpirationPlan) -> list[str]:
    refs = {ref.label for ref in plan.refs_deleted} - {ref.label for ref in approved.refs_deleted}
    return sorted({*plan.released} - {*approved.released}) + sorted(refs)


def differ(plan: ExpirationPlan, after: History, released: set[str]) -> list[str]:
    """Compare a result with a plan; returns a sentence for each difference."""
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
    after = info if place == 0 else _backup(reader, info.updates[place].backup)
    before = _backup(reader, _name_before(info, place))
    return _Run(with_restamped(reader, history_of(before)), history_of(after), before.newest)


def _backup(reader: ObjectReader, name: str | None) -> RepoInfo:
    if name is None:
        raise FormatError(f"{reader.uri}/{REPO_KEY}: names no backup of the state before the expiration")
    key = OVERWRITTEN + name
    return parse_repo_info(reader.get(key), key)
