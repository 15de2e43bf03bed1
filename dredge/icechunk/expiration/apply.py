"""Expire a repository: in place on spec 1, with the Icechunk library on spec 2.

In place ("update A in place", the design document's left algorithm), each edit replaces a snapshot file by the same
file with another parent, if the file is unchanged since its read. Id, path, header and time stay. Newer snapshots are
edited first, so at every moment each ref has its old history or its new one. Edits are independent: after a kill
between any two, the repository is valid and another run finishes. No object is deleted; expired refs are deleted last.

The library stores the repo info before each change in `overwritten/`, so its result is compared exactly with the plan,
even with commits in between: a plan made from the stored state before the expiration must result in the stored state
after the expiration, snapshot by snapshot.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import cache, partial

from dredge.errors import ConfigError, ConflictError, DredgeError, FormatError, NotFoundError, RefusedError
from dredge.icechunk import repository
from dredge.icechunk.collection.witness.record import note_released
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.plan import Applied, Edit, ExpirationPlan, plan_for
from dredge.icechunk.expiration.restore import record_applied
from dredge.icechunk.format import metadata
from dredge.icechunk.history import History, Ref
from dredge.icechunk.library import delete_ref, expire_with_library, open_library
from dredge.icechunk.maintenance import open_state, right_to_work
from dredge.runs.clock import CLOCK_SKEW_SECONDS_MAX, check_clocks, utc_now
from dredge.runs.failures import partial_after
from dredge.runs.lease import LeaseGrant
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer, store_clock
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
    """Plan and apply an expiration, under the lease. It deletes no object. Raises ConfigError: a rule without support
    for this spec, or a naive threshold; LeaseHeldError: another run works on the repository; RefusedError: the store's
    clock and this machine's differ too much, or as in `expire_in_place` and `expire_by_library`; FormatError: an
    important file is missing or damaged."""
    reader = open_reader(uri, options)
    version, rule = repository.spec_version(reader), expiration.rule
    if version == 2 and rule not in (None, "spec_v2"):
        raise ConfigError(f"{uri}: rule {rule} can be planned but not applied on spec 2; use spec_v2")

    def plan(history: History) -> ExpirationPlan:
        return plan_for(reader, history, expiration, utc_now())

    with right_to_work(uri, f"expiration {new_xid(utc_now())}", lease, options):
        # With a clock ahead, snapshots expire too early and young refs look old.
        ahead = (store_clock(open_state(uri, options), "") - utc_now()).total_seconds()
        check_clocks(ahead, CLOCK_SKEW_SECONDS_MAX)
        library = cache(lambda: open_library(uri, options))
        if version == 1:
            applied = expire_in_place(
                open_writer(uri, options),
                plan,
                approved_digest=approved_digest,
                delete_ref=lambda: partial(delete_ref, library()),
            )
        else:
            library()  # before the plan: without credentials nothing is planned
            keeps_some = expiration.keep_refs or expiration.keep_refs_younger_hours
            applied = expire_by_library(
                reader,
                lambda older_than, branches, tags: expire_with_library(
                    library(), older_than, delete_branches=branches, delete_tags=tags
                ),
                plan,
                approved_digest=approved_digest,
                # The library deletes all expired refs or none, so where some are kept they are deleted by name.
                delete_ref=partial(delete_ref, library()) if keeps_some else None,
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
    """The result of an expiration differs from its plan. Run no collection before the reason is known."""

    kind = "outcome_differs"


type Expire = Callable[[datetime, bool, bool], set[str]]


def expire_by_library(
    reader: ObjectReader,
    expire: Expire,
    plan_for: Callable[[History], ExpirationPlan],
    *,
    approved_digest: str | None = None,
    delete_ref: Callable[[Ref], None] | None = None,
) -> Applied:
    """Plan an expiration of spec 2, apply it with the library, and compare the result with the plan. `delete_ref`:
    deletes one ref. Expired refs are deleted by name first, and the library deletes none. Raises RefusedError: the
    approved plan is outdated, or the repository is not online; PartialError: the library expired, and the credentials
    do not allow to read its record; OutcomeDiffersError: the result differs from the plan or exceeds the approval; the
    message lists the snapshots."""
    history = repository.read_history(reader)
    if history.spec_version != 2:
        raise ConfigError(f"{reader.uri}: has spec version {history.spec_version}, not 2")
    if history.availability != "online":
        raise RefusedError(f"{reader.uri}: the repository is {history.availability}. Nothing was changed.")
    plan = plan_for(history)
    if approved_digest is not None and plan.digest != approved_digest:
        raise RefusedError(
            f"{reader.uri}: the repository changed after plan {approved_digest[:12]} was approved. Nothing was"
            " expired. Plan and approve again."
        )
    if plan.is_empty:
        return Applied(plan, (), ())
    asked, gone = plan, plan.refs_deleted
    before: metadata.Operation | None = None
    if delete_ref is not None and gone:
        before = metadata.parse_repo_info(reader.get(metadata.REPO_KEY)).newest
        gone = _delete_refs(reader, gone, delete_ref)
        plan = plan_for(repository.read_history(reader))
        if plan.is_empty:
            return Applied(plan, (), gone, before=before)
    by_library = delete_ref is None
    released = expire(
        plan.threshold, plan.delete_expired_branches and by_library, plan.delete_expired_tags and by_library
    )
    with partial_after(
        lambda: f"Before that, the library's expiration released {len(released):,} snapshots."
    ):
        before_it, after, newest = _recorded(reader)
    unapproved: list[str] = []
    if before_it.digest != plan.before.digest:
        plan = plan_for(before_it)
    if approved_digest is not None and plan is not asked:
        unapproved = _beyond(plan, asked)
    differences = differ(plan, after, released)
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
        plan, tuple(edit.snapshot for edit in plan.edits), plan.refs_deleted or gone, before=before or newest
    )


def _delete_refs(
    reader: ObjectReader, refs: Collection[Ref], delete_ref: Callable[[Ref], None]
) -> tuple[Ref, ...]:
    gone = []
    for ref in refs:
        if ref not in repository.history_of(repository.read_repo_info(reader)).refs:
            log.info("%s: %s moved or was deleted after the plan: not deleted", reader.uri, ref.label)
            continue
        delete_ref(ref)
        gone.append(ref)
        # The library deletes a name, wherever it leads by then.
        tip = _deleted_tip(reader, ref)
        if tip is not None and tip != ref.tip:
            raise OutcomeDiffersError(
                f"{reader.uri}: a writer moved {ref.label} from {ref.tip} to {tip} while it was deleted. No object was"
                f" deleted. Create the branch again on snapshot {tip}, then start the expiration again."
            )
    return tuple(gone)


def _deleted_tip(reader: ObjectReader, ref: Ref) -> str | None:
    info = metadata.parse_repo_info(reader.get(metadata.REPO_KEY))
    for place, update in enumerate(info.updates):
        if update.kind == f"{ref.kind} deleted" and update.ref == ref.name:
            before = _backup(reader, _name_before(info, place))
            return (before.tags if ref.kind == "tag" else before.branches).get(ref.name)
    return None  # other operations hide the deletion already


def _name_before(info: metadata.RepoInfo, place: int) -> str | None:
    return info.updates[place + 1].backup if place + 1 < len(info.updates) else info.before_updates


def _beyond(plan: ExpirationPlan, approved: ExpirationPlan) -> list[str]:
    refs = {ref.label for ref in plan.refs_deleted} - {ref.label for ref in approved.refs_deleted}
    return sorted({*plan.released} - {*approved.released}) + sorted(refs)


def differ(plan: ExpirationPlan, after: History, released: set[str]) -> list[str]:
    """Compare a result with a plan; returns a phrase for each difference."""
    found = [
        f"{snapshot} was {'released' if snapshot in released else 'not released'}"
        for snapshot in sorted(released ^ set(plan.released))
    ]
    planned, real = {*plan.after.lines}, {*after.lines}
    found += [f"'{line}' is in the plan, but not in the history" for line in sorted(planned - real)]
    return found + [f"'{line}' is in the history, but not in the plan" for line in sorted(real - planned)]


def _recorded(reader: ObjectReader) -> tuple[History, History, metadata.Operation | None]:
    # The history before and after the last expiration, and the newest operation before it.
    info = metadata.parse_repo_info(reader.get(metadata.REPO_KEY))
    place = next((row for row, update in enumerate(info.updates) if update.kind == "expiration ran"), None)
    if place is None:
        raise FormatError(f"{reader.uri}/{metadata.REPO_KEY}: has no entry for the expiration that just ran")
    after = info if place == 0 else _backup(reader, info.updates[place].backup)
    before = _backup(reader, _name_before(info, place))
    return (
        repository.with_restamped(reader, repository.history_of(before)),
        repository.history_of(after),
        before.newest,
    )


def _backup(reader: ObjectReader, name: str | None) -> metadata.RepoInfo:
    if name is None:
        raise FormatError(f"{reader.uri}/{metadata.REPO_KEY}: has no copy of the state before the expiration")
    key = metadata.COPIES + name
    return metadata.parse_repo_info(reader.get(key), key)


ATTEMPTS = 5


def expire_in_place(
    writer: ObjectWriter,
    plan_for: Callable[[History], ExpirationPlan],
    *,
    approved_digest: str | None = None,
    delete_ref: Callable[[], Callable[[Ref], None]],
) -> Applied:
    """Plan and apply an expiration on spec 1; plans again if the repository changes meanwhile. `delete_ref`: returns
    the function that deletes a ref; called only if the plan deletes some. Raises ConfigError: a rule without support
    for spec 1; RefusedError: the approved plan is outdated, or the repository kept changing; FormatError: an important
    file is missing or damaged; PartialError: some edits were made, and the store does not allow the rest."""
    edited: list[str] = []
    gone: list[Ref] = []
    conflict: ConflictError | None = None
    with partial_after(lambda: _what_changed(edited, gone)):
        for attempt in range(1, ATTEMPTS + 1):
            history = repository.read_history(writer)
            if history.spec_version != 1:
                raise ConfigError(f"{writer.uri}: has spec version {history.spec_version}, not 1")
            plan = plan_for(history)
            if plan.rule not in ("document", "spec_v1"):
                raise ConfigError(f"rule {plan.rule} cannot be applied to spec 1: choose document or spec_v1")
            if approved_digest is not None and plan.digest != approved_digest:
                raise RefusedError(
                    f"{writer.uri}: changed after plan {approved_digest[:12]} was approved. {len(edited)} snapshots"
                    " were edited; the history is valid. No object was deleted. Plan and approve again."
                )
            try:
                for edit in _newest_first(plan):
                    if apply_edit(writer, edit):
                        edited.append(edit.snapshot)
                if plan.refs_deleted:
                    delete = delete_ref()
                for ref in plan.refs_deleted:
                    _drop_ref(writer, ref, delete)
                    gone.append(ref)
            except ConflictError as error:
                log.info("%s: %s; planning again", writer.uri, error)
                conflict = error
                continue
            return Applied(plan, tuple(edited), tuple(gone), attempt)
    raise RefusedError(
        f"{writer.uri}: changed during each of {ATTEMPTS} attempts to expire it, last: {conflict}. {len(edited)}"
        " snapshots were edited; the history is valid. Try again with fewer writers."
    )


def _what_changed(edited: Sequence[str], gone: Sequence[Ref]) -> str:
    if not edited and not gone:
        return ""
    return (
        f"Before that, {len(edited):,} snapshots were edited and {len(gone):,} refs deleted; the history is valid. Run"
        " it again for the rest."
    )


def _newest_first(plan: ExpirationPlan) -> list[Edit]:
    # A path may have two edited snapshots: the cut, and below it the tip of an expired tag. With the cut first, the
    # path changes from old to new at once, and later edits below it have no effect on it.
    return sorted(plan.edits, key=lambda edit: -plan.before.snapshots[edit.snapshot].flushed_at)


def apply_edit(writer: ObjectWriter, edit: Edit) -> bool:
    """Give a snapshot its new parent; returns False if its file had that parent already. Raises ConflictError: the file
    has another parent than in the plan, or changed during the edit; FormatError: it is damaged."""
    key = repository.SNAPSHOTS + edit.snapshot
    try:
        # The tag first: if the file changes before the read, the write below fails.
        etag = writer.stat(key).etag
        data = writer.get(key)
    except NotFoundError:
        raise ConflictError(f"snapshot {edit.snapshot} is missing") from None
    parent = metadata.parse_snapshot(data, key).parent_id
    if parent == edit.new_parent:
        return False
    if parent != edit.old_parent:
        raise ConflictError(
            f"snapshot {edit.snapshot} has the parent {parent} instead of {edit.old_parent} as in the plan"
        )
    if etag is None:
        raise RefusedError(
            f"{writer.uri}/{key}: this store returns no ETags, so conditional writes are not possible"
        )
    writer.put_if_match(key, metadata.with_parent(data, key, edit.new_parent), etag)
    return True


def _drop_ref(writer: ObjectWriter, ref: Ref, delete_ref: Callable[[Ref], None]) -> None:
    tip = repository.read_ref(writer, ref.kind, ref.name)
    if tip is None:
        return
    if tip != ref.tip:
        raise ConflictError(f"{ref.label} moved from {ref.tip} to {tip}")
    delete_ref(ref)
