"""Apply a plan to a repository of spec 1: "update A in place", the design document's left algorithm.

Each edit replaces a snapshot file by the same file with another parent, if the file is unchanged since its read. Id,
path, header and time stay. Newer snapshots are edited first, so at every moment each ref has its old history or its new
one. Edits are independent: after a kill between any two, the repository is valid and another run finishes. No object is
deleted; expired refs are deleted last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from dredge.icechunk.expiration.plan import Edit, ExpirationPlan, plan_expiration
from dredge.icechunk.format.repo_info import Operation
from dredge.icechunk.format.snapshots import parse_snapshot, with_parent
from dredge.icechunk.history import History, Ref
from dredge.icechunk.repository import SNAPSHOTS, read_history, read_ref
from dredge.runs.failures import partial_after
from dredge.storage import ObjectWriter

log = logging.getLogger("dredge")

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an application.

    Attributes:
        before: spec 2: the newest operation before it.
        expiration_id: id of its record, for a restore; "" without a change.
    """

    plan: ExpirationPlan
    edited: tuple[str, ...]
    refs_deleted: tuple[Ref, ...]
    attempts: int = 1
    before: Operation | None = None
    expiration_id: str = ""


def expire_in_place(
    writer: ObjectWriter,
    threshold: datetime,
    *,
    rule: str = "spec_v1",
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    kept_refs: Callable[[History], Collection[str]] = lambda _: (),
    approved_digest: str | None = None,
    before_refs: Callable[[], object] = lambda: None,
    delete_ref: Callable[[Ref], None] | None = None,
) -> Applied:
    """Plan and apply an expiration on spec 1; plans again if the repository changes meanwhile.

    Raises:
        ConfigError: a rule without support for spec 1, or no `delete_ref` for the flags.
        RefusedError: the approved plan is outdated, or the repository kept changing.
        FormatError: an important file is missing or damaged.
        PartialError: some edits were made, and the store does not allow the rest.
    """
    if rule not in ("document", "spec_v1"):
        raise ConfigError(f"rule {rule} cannot be applied to spec 1: choose document or spec_v1")
    if (delete_expired_branches or delete_expired_tags) and delete_ref is None:
        raise ConfigError("deleting expired refs needs a way to delete them")
    edited: list[str] = []
    gone: list[Ref] = []
    conflict: ConflictError | None = None
    with partial_after(lambda: _what_changed(edited, gone)):
        for attempt in range(1, ATTEMPTS + 1):
            history = read_history(writer)
            if history.spec_version != 1:
                raise ConfigError(f"{writer.uri}: has spec version {history.spec_version}, not 1")
            plan = plan_expiration(
                history,
                threshold,
                rule=rule,
                delete_expired_branches=delete_expired_branches,
                delete_expired_tags=delete_expired_tags,
                kept_refs=kept_refs(history),
            )
            if approved_digest is not None and plan.digest != approved_digest:
                raise RefusedError(
                    f"{writer.uri}: changed since the plan {approved_digest[:12]} was approved. {len(edited)}"
                    " edits were made, each leaves a valid history. No object was deleted. Plan again."
                )
            try:
                for edit in _newest_first(plan):
                    if apply_edit(writer, edit):
                        edited.append(edit.snapshot)
                if plan.refs_deleted:
                    before_refs()
                for ref in plan.refs_deleted:
                    _drop_ref(writer, ref, delete_ref)
                    gone.append(ref)
            except ConflictError as error:
                log.info("%s: %s; planning again", writer.uri, error)
                conflict = error
                continue
            return Applied(plan, tuple(edited), tuple(gone), attempt)
    raise RefusedError(
        f"{writer.uri}: changed during {ATTEMPTS} attempts to expire it, last: {conflict}. "
        f"{len(edited)} snapshots were edited and history is valid. Try again with fewer writers."
    )


def _what_changed(edited: Sequence[str], gone: Sequence[Ref]) -> str:
    if not edited and not gone:
        return ""
    return (
        f"Before that, {len(edited):,} snapshots were edited and {len(gone):,} refs deleted; history is valid. Run"
        " again for the rest."
    )


def _newest_first(plan: ExpirationPlan) -> list[Edit]:
    # A path may have two edited snapshots: the cut, and below it the tip of an expired tag. With the cut first, the
    # path changes from old to new at once, and later edits below it have no effect on it.
    return sorted(plan.edits, key=lambda edit: -plan.before.snapshots[edit.snapshot].flushed_at)


def apply_edit(writer: ObjectWriter, edit: Edit) -> bool:
    """Give a snapshot its new parent.

    Returns:
        Whether the file was replaced; False if it had that parent already.

    Raises:
        ConflictError: the file has another parent than in the plan, or changed during the edit.
        FormatError: the file is damaged.
    """
    key = SNAPSHOTS + edit.snapshot
    try:
        # The tag first: if the file changes before the read, the write below fails.
        etag = writer.stat(key).etag
        data = writer.get(key)
    except NotFoundError:
        raise ConflictError(f"snapshot {edit.snapshot} is missing") from None
    parent = parse_snapshot(data, key).parent_id
    if parent == edit.new_parent:
        return False
    if parent != edit.old_parent:
        raise ConflictError(
            f"snapshot {edit.snapshot} has the parent {parent}, the plan knew {edit.old_parent}"
        )
    if etag is None:
        raise RefusedError(
            f"{writer.uri}/{key}: this store gives no tags, so a conditional write is not possible"
        )
    writer.put_if_match(key, with_parent(data, key, edit.new_parent), etag)
    return True


def _drop_ref(writer: ObjectWriter, ref: Ref, delete_ref: Callable[[Ref], None] | None) -> None:
    tip = read_ref(writer, ref.kind, ref.name)
    if tip is None:
        return
    if tip != ref.tip:
        raise ConflictError(f"{ref.label} moved from {ref.tip} to {tip}")
    if delete_ref is None:
        raise ConfigError("deleting expired refs needs a way to delete them")
    delete_ref(ref)
