"""An expiration plan: the effect of a rule on a history, as a value to print, store, approve and apply.

This is the dry run missing from the library. Planning has no input but the history, and changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from dredge.errors import ConfigError
from dredge.icechunk.collection.witness.record import OperationsLog, list_ref_files
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.rules import RULES, Request
from dredge.icechunk.format.metadata import Operation, instant, micros
from dredge.icechunk.history import MAIN, History, Ref
from dredge.icechunk.repository import read_repo_info
from dredge.storage import ObjectReader

__all__ = ["Edit", "ExpirationPlan", "Freed", "RefChange", "instant", "plan_expiration"]


@dataclass(frozen=True, slots=True)
class RefChange:
    """The effect on a ref, with the reason."""

    ref: Ref
    action: str
    reason: str
    snapshots_before: int
    snapshots_after: int


@dataclass(frozen=True, slots=True)
class Edit:
    """A snapshot with a new parent."""

    snapshot: str
    old_parent: str
    new_parent: str


@dataclass(frozen=True, slots=True)
class Freed:
    """The unreachable objects after the expiration, and when the last of the young ones reaches the minimum age."""

    snapshots: int
    manifests: int
    chunks: int
    transaction_logs: int
    size_bytes: int
    young_objects: int = 0
    young_bytes: int = 0
    all_old_at: datetime | None = None


@dataclass(frozen=True, eq=False)
class ExpirationPlan:
    """The plan of an expiration."""

    rule: str
    threshold: datetime
    delete_expired_branches: bool
    delete_expired_tags: bool
    before: History
    after: History
    released: tuple[str, ...]
    edits: tuple[Edit, ...]
    refs: tuple[RefChange, ...]
    frees: Freed | None = None

    @property
    def refs_deleted(self) -> tuple[Ref, ...]:
        """The refs to delete."""
        return tuple(change.ref for change in self.refs if change.action == "deleted")

    @property
    def is_empty(self) -> bool:
        """Whether the plan changes nothing."""
        return not self.released and not self.edits and not self.refs_deleted

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The released snapshots still reached from refs afterwards: a collection keeps them."""
        reachable = self.after.reachable()
        return tuple(snapshot for snapshot in self.released if snapshot in reachable)

    def ancestries(self) -> dict[str, list[str]]:
        """Each remaining ref's ancestry afterwards, newest first."""
        return {ref.label: self.after.ancestry(ref.tip) for ref in self.after.refs}

    @cached_property
    def digest(self) -> str:
        """Hash of the decisions and of their history, for the approval, without the threshold: "older than 30 days" a
        minute later is the same plan, with the same decisions."""
        decided = [
            self.rule,
            f"{self.delete_expired_branches} {self.delete_expired_tags}",
            self.before.digest,
            *self.released,
            *(f"{edit.snapshot} {edit.old_parent} {edit.new_parent}" for edit in self.edits),
            *(f"{ref.label} {ref.tip}" for ref in self.refs_deleted),
        ]
        return hashlib.sha256("\n".join(decided).encode()).hexdigest()

    def with_freed(self, frees: Freed) -> ExpirationPlan:
        """The same plan with an estimate of a collection; the digest stays."""
        return replace(self, frees=frees)

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON data."""
        found: dict[str, Any] = {
            "rule": self.rule,
            "spec_version": self.before.spec_version,
            "threshold": self.threshold.isoformat(),
            "delete_expired_branches": self.delete_expired_branches,
            "delete_expired_tags": self.delete_expired_tags,
            "digest": self.digest,
            "snapshots": len(self.before.snapshots),
            "released": list(self.released),
            "released_but_held": list(self.held),
            "edited": [asdict(edit) for edit in self.edits],
            "refs_deleted": [ref.label for ref in self.refs_deleted],
            "refs": [
                {**asdict(change), "ref": change.ref.label, "tip": change.ref.tip} for change in self.refs
            ],
        }
        if self.frees is not None:
            freed = asdict(self.frees)
            old_at = self.frees.all_old_at
            freed |= {"bytes": freed.pop("size_bytes"), "all_old_at": old_at and old_at.isoformat()}
            found["collection_would_free"] = freed
        return found | {"ancestry_after": self.ancestries()}

    def dumps(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.as_json(), indent=2)


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an application."""

    plan: ExpirationPlan
    edited: tuple[str, ...]
    refs_deleted: tuple[Ref, ...]
    attempts: int = 1
    before: Operation | None = None  # spec 2: the newest operation before it
    expiration_id: str = ""  # id of its record, for a restore; "" without a change


def plan_expiration(
    history: History,
    threshold: datetime,
    *,
    rule: str | None = None,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    kept_refs: Collection[str] = (),
) -> ExpirationPlan:
    """Plan an expiration; the plan is empty if no snapshot is expired.

    Refs with a label in `kept_refs` are not deleted.

    Raises:
        ConfigError: a naive threshold, or an unknown rule.
        FormatError: parents are missing or form a cycle.
        RefusedError: a snapshot is not strictly newer than its parent.
    """
    if threshold.utcoffset() is None:
        raise ConfigError(f"the threshold {threshold.isoformat()} has no time zone; give an aware time")
    name = rule or f"spec_v{history.spec_version}"
    if name not in RULES:
        raise ConfigError(f"unknown expiration rule {name!r}: choose one of {', '.join(RULES)}")
    history.check()
    kept = frozenset(kept_refs)
    outcome = RULES[name](
        history, Request(micros(threshold), delete_expired_branches, delete_expired_tags, kept)
    )
    edits = tuple(
        Edit(snapshot, history.snapshots[snapshot].parent_id or "", parent)
        for snapshot, parent in sorted(outcome.edits.items())
    )
    before, after = _Depths(history), _Depths(outcome.after)
    changes = []
    for ref in history.refs:
        gone = ref in outcome.refs_deleted
        lengths = before.of(ref.tip), 0 if gone else after.of(ref.tip)
        expired = history.snapshots[ref.tip].flushed_at < micros(threshold)
        action, reason = _explain(
            ref, name, gone, expired, ref.tip in outcome.edits, lengths, ref.label in kept
        )
        changes.append(RefChange(ref, action, reason, *lengths))
    return ExpirationPlan(
        rule=name,
        threshold=threshold,
        delete_expired_branches=delete_expired_branches,
        delete_expired_tags=delete_expired_tags,
        before=history,
        after=outcome.after,
        released=tuple(sorted(outcome.released)),
        edits=edits,
        refs=tuple(changes),
    )


def _explain(
    ref: Ref, rule: str, gone: bool, expired: bool, tip_edited: bool, lengths: tuple[int, int], kept: bool
) -> tuple[str, str]:
    left = lengths[0] - lengths[1]
    if gone:
        return "deleted", "its tip is expired, and the options delete expired refs of this kind"
    if expired and tip_edited:
        return "re-parented", f"its tip is expired but stays; {left} older snapshots leave its history"
    if left:
        return "shortened", f"{left} expired snapshots leave its history"
    if expired and lengths[0] == 1:
        return "held", "its tip is a root, which is never released"
    if expired and rule == "document":
        return "held", "its tip is expired: the rule keeps such a ref with its whole history"
    if expired:
        if ref.label == f"branch:{MAIN}":
            why = "main is never deleted"
        else:
            why = "keep_refs or keep_refs_younger_hours" if kept else "the options keep expired refs"
        return "held", f"its tip is expired but stays ({why}), already directly above the root"
    return "unchanged", "nothing but the root is expired on its path"


class _Depths:
    """Lengths of ancestries; each snapshot is visited once."""

    def __init__(self, history: History) -> None:
        self.snapshots = history.snapshots
        self.known: dict[str, int] = {}

    def of(self, tip: str) -> int:
        trail = []
        node: str | None = tip
        while node is not None and node not in self.known:
            trail.append(node)
            node = self.snapshots[node].parent_id
        depth = 0 if node is None else self.known[node]
        for snapshot in reversed(trail):
            depth += 1
            self.known[snapshot] = depth
        return self.known[tip]


def plan_for(reader: ObjectReader, history: History, expiration: Expiration, now: datetime) -> ExpirationPlan:
    """Plan an expiration of a history, with ages of refs counted back from `now`; changes nothing, and raises as
    `plan_expiration`."""
    return plan_expiration(
        history,
        expiration.instant,
        rule=expiration.rule,
        delete_expired_branches=expiration.delete_expired_branches,
        delete_expired_tags=expiration.delete_expired_tags,
        kept_refs=kept_refs(reader, history, expiration, now),
    )


def kept_refs(
    reader: ObjectReader, history: History, expiration: Expiration, now: datetime
) -> frozenset[str]:
    """Return the labels of refs in `keep_refs` or younger than `keep_refs_younger_hours`; of unknown age, all refs."""
    if not (expiration.delete_expired_branches or expiration.delete_expired_tags):
        return frozenset()
    globs = [glob.strip() for glob in (expiration.keep_refs or "").split(",") if glob.strip()]
    named = {
        ref.label
        for ref in history.refs
        # A name may hold characters of globs itself.
        if any(name == glob or fnmatchcase(name, glob) for glob in globs for name in (ref.name, ref.label))
    }
    if not expiration.keep_refs_younger_hours:
        return frozenset(named)
    since = micros(now - timedelta(hours=expiration.keep_refs_younger_hours))
    if history.spec_version == 1:
        files = list_ref_files(reader).items()
        return frozenset(named | {":".join(ref) for ref, (_, at) in files if micros(at) >= since})
    moved = _moved_since(reader, since)
    return frozenset(named | ({ref.label for ref in history.refs} if moved is None else moved))


def _moved_since(reader: ObjectReader, since: int) -> set[str] | None:
    # Spec 2; None if unknown. The whole chain of the log counts: the repo info has only the newest operations.
    found: set[str] = set()
    for update in OperationsLog(reader, read_repo_info(reader)):
        if update.updated_at < since:
            return found
        if update.kind == "repository migrated":
            return None  # entries before it have the times of snapshots, not of refs
        if update.label is not None:
            found.add(update.label)
        if update.kind == "repository initialised":
            return found
    return None
