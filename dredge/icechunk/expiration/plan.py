"""An expiration plan: the effect of a rule on a history, as a value for printing, storage, approval and application.

The library has no dry run. Planning depends only on the history, and changes nothing.

The three expiration rules are pure functions of a history.

    document   the founding design: for each ref with a living tip, the oldest non-expired snapshot on its path gets the
               root as parent; a ref with an expired tip keeps its whole history
    spec_v1    Icechunk's rule on spec 1 since 0.2.10: the same, and an expired tip gets the root
    spec_v2    Icechunk's rule on spec 2: over all snapshots at once; protected tips stay, every kept snapshot with a
               released parent gets the root

A snapshot is expired if its time is strictly before the threshold. Roots are never released and never edited, main is
never deleted, and no edit can make a cycle: the only new parent is the root of the edited snapshot's own path. The
rules require each snapshot to be strictly newer than its parent (`History.check`), so a path is a living part followed
by an expired part. Exception: a snapshot with the time of an expiration by an old release (`History.restamped`); while
it is not expired, its path is not changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from msgspec import structs

from dredge.errors import ConfigError
from dredge.icechunk.collection.witness.record import OperationsLog, list_ref_files
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.format.metadata import Operation, SnapshotEntry, micros
from dredge.icechunk.history import MAIN, History, Ref
from dredge.icechunk.repository import read_repo_info
from dredge.storage import ObjectReader


@dataclass(frozen=True, slots=True)
class Request:
    """Threshold and options of an expiration."""

    threshold: int
    delete_branches: bool
    delete_tags: bool
    kept: frozenset[str] = frozenset()

    def may_delete(self, ref: Ref) -> bool:
        """Whether a ref may be deleted; never main, and no ref with a label in `kept`."""
        if ref.label in self.kept:
            return False
        if ref.kind == "tag":
            return self.delete_tags
        return self.delete_branches and ref.name != MAIN


@dataclass(frozen=True)
class Outcome:
    """The decision of a rule."""

    released: frozenset[str]
    edits: dict[str, str]
    refs_deleted: frozenset[Ref]
    after: History


type Rule = Callable[[History, Request], Outcome]


def document(history: History, request: Request) -> Outcome:
    """Apply the design document's algorithm with its guards.

    Deletion of refs is optional: the flags delete refs with an expired tip, except main and refs on a root.

    Source: the design document "Basic expiration algorithm", pseudo-code and "Forbidden Expiration Operations".
    """
    edits: dict[str, str] = {}
    deleted: set[Ref] = set()
    walker = _Walker(history, request.threshold)
    for ref in history.refs:
        if walker.is_expired(ref.tip):
            if request.may_delete(ref) and history.snapshots[ref.tip].parent_id is not None:
                deleted.add(ref)
            continue
        cut = None if walker.ends_living(ref.tip) else walker.next_cut(ref.tip)
        if cut is not None:
            edits[cut] = walker.root_of(cut)
    before = history.reachable()
    kept = [ref.tip for ref in history.refs if ref not in deleted]
    released = before - _with(history, edits, deleted).reachable_from(kept)
    return Outcome(frozenset(released), edits, frozenset(deleted), _with(history, edits, deleted, released))


def spec_v1(history: History, request: Request) -> Outcome:
    """Apply the rule of Icechunk on spec 1, in its order: tags, then branches, by name.

    Source: icechunk/src/ops/expiration_v1.rs (2.1), observed on 1.1.21 and 2.3.0.
    """
    edits: dict[str, str] = {}
    released: set[str] = set()
    deleted: set[Ref] = set()
    walker = _Walker(history, request.threshold)
    for ref in history.refs:
        expired = walker.is_expired(ref.tip)
        if expired and request.may_delete(ref):
            deleted.add(ref)
        if walker.ends_living(ref.tip):
            continue
        cut = ref.tip if expired else walker.next_cut(ref.tip)
        parent = None if cut is None else edits.get(cut, history.snapshots[cut].parent_id)
        if cut is None or parent is None or history.snapshots[parent].parent_id is None:
            continue
        walker.collect(cut if expired else parent, released)
        edits[cut] = walker.root_of(cut)
    kept = [ref.tip for ref in history.refs if ref not in deleted]
    gone = history.reachable() - _with(history, edits, deleted).reachable_from(kept)
    return Outcome(frozenset(released), edits, frozenset(deleted), _with(history, edits, deleted, gone))


def spec_v2(history: History, request: Request) -> Outcome:
    """Apply the rule of Icechunk on spec 2: to every snapshot of the repo info, reachable or not.

    Source: icechunk/src/ops/gc.rs, expire_v2 (2.1), observed on 2.3.0.
    """
    walker = _Walker(history, request.threshold)
    protected = {ref.tip for ref in history.refs if not request.may_delete(ref)}
    expired = {
        entry.id
        for entry in history.snapshots.values()
        if entry.parent_id is not None and walker.is_expired(entry.id)
    }
    released = expired - protected
    edits = {
        entry.id: walker.root_of(entry.id)
        for entry in history.snapshots.values()
        if entry.id not in released and entry.parent_id in released
    }
    deleted = {ref for ref in history.refs if request.may_delete(ref) and ref.tip in expired}
    pruned = {snapshot: _pruned(history, snapshot) for snapshot in edits}
    return Outcome(
        frozenset(released), edits, frozenset(deleted), _with(history, edits, deleted, released, pruned)
    )


RULES: dict[str, Rule] = {"document": document, "spec_v1": spec_v1, "spec_v2": spec_v2}


class _Walker:
    """Walks of a rule over a history; a snapshot is visited a few times for any number of refs."""

    def __init__(self, history: History, threshold: int) -> None:
        self.snapshots = history.snapshots
        self.threshold = threshold
        self._roots: dict[str, str] = {}
        self._living: set[str] = set()
        self._living_bottoms = {node for node in history.restamped if not self.is_expired(node)}

    def is_expired(self, snapshot: str) -> bool:
        return self.snapshots[snapshot].flushed_at < self.threshold

    def ends_living(self, tip: str) -> bool:
        """Whether the snapshot above the root has the time of an earlier expiration, and is living. Then it is the
        oldest living snapshot of its path and already on the root, and the rule leaves the path."""
        node: str | None = tip if self._living_bottoms else None
        while node is not None and node not in self._living_bottoms:
            node = self.snapshots[node].parent_id
        return node is not None

    def root_of(self, snapshot: str) -> str:
        trail = []
        node = snapshot
        while node not in self._roots:
            parent = self.snapshots[node].parent_id
            if parent is None:
                self._roots[node] = node
                break
            trail.append(node)
            node = parent
        self._roots.update(dict.fromkeys(trail, self._roots[node]))
        return self._roots[snapshot]

    def next_cut(self, tip: str) -> str | None:
        """The oldest living snapshot on a living tip's path, if it is not directly above the root; None if found
        before."""
        node = tip
        while True:
            if node in self._living:
                return None
            self._living.add(node)
            parent = self.snapshots[node].parent_id
            if parent is None:
                return None
            if self.is_expired(parent):
                return node if self.snapshots[parent].parent_id is not None else None
            node = parent

    def collect(self, start: str, into: set[str]) -> None:
        """Add the snapshots of a path without the root; stops at a known snapshot."""
        node = start
        while node not in into:
            parent = self.snapshots[node].parent_id
            if parent is None:
                return
            into.add(node)
            node = parent


def _with(
    history: History,
    edits: dict[str, str],
    deleted: Iterable[Ref],
    gone: Iterable[str] = (),
    pruned: dict[str, tuple[str, ...]] | None = None,
) -> History:
    snapshots: dict[str, SnapshotEntry] = dict(history.snapshots)
    for snapshot in gone:
        del snapshots[snapshot]
    for snapshot, parent in edits.items():
        if snapshot in snapshots:
            entry = snapshots[snapshot]
            logs = entry.pruned if pruned is None else pruned[snapshot]
            snapshots[snapshot] = structs.replace(entry, parent_id=parent, pruned=logs)
    labels = {ref.label for ref in deleted}
    return replace(
        history,
        snapshots=snapshots,
        branches={name: tip for name, tip in history.branches.items() if f"branch:{name}" not in labels},
        tags={name: tip for name, tip in history.tags.items() if f"tag:{name}" not in labels},
    )


def _pruned(history: History, snapshot: str) -> tuple[str, ...]:
    path = list(history.path(snapshot))
    logs: list[str] = []
    for entry in reversed(path[1:]):
        if entry.parent_id is not None:
            logs += [*entry.pruned, entry.id]
    return (*logs, *path[0].pruned)


@dataclass(frozen=True, slots=True)
class RefChange:
    """The effect of a plan on a ref, with the reason."""

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
    """The unreachable objects after the expiration, and the time when the last young one reaches the minimum age."""

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
        """The released snapshots still reachable from refs, so a collection keeps them."""
        reachable = self.after.reachable()
        return tuple(snapshot for snapshot in self.released if snapshot in reachable)

    def ancestries(self) -> dict[str, list[str]]:
        """Each remaining ref's ancestry afterwards, newest first."""
        return {ref.label: self.after.ancestry(ref.tip) for ref in self.after.refs}

    @cached_property
    def digest(self) -> str:
        """Hash of the decisions and of the history, for the approval. It omits the threshold, so "older than 30 days"
        gives the same digest a minute later if the decisions are the same."""
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
        """Return the plan with an estimate of a collection; the digest is the same."""
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
    """The result of an applied plan."""

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

    Refs with a label in `kept_refs` are not deleted. Raises ConfigError: a naive threshold, or an unknown rule;
    FormatError: parents are missing or form a cycle; RefusedError: a snapshot is not strictly newer than its parent."""
    if threshold.utcoffset() is None:
        raise ConfigError(f"the threshold {threshold.isoformat()} has no time zone")
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
        return "deleted", "its tip is expired, and the settings delete expired refs of this kind"
    if expired and tip_edited:
        return "re-parented", f"its tip is expired but kept; {left} older snapshots leave its history"
    if left:
        return "shortened", f"{left} expired snapshots leave its history"
    if expired and lengths[0] == 1:
        return "held", "its tip is a root, which is never released"
    if expired and rule == "document":
        return "held", "its tip is expired; the rule keeps the whole history of such a ref"
    if expired:
        if ref.label == f"branch:{MAIN}":
            why = "main is never deleted"
        else:
            why = "keep_refs or keep_refs_younger_hours" if kept else "the settings keep expired refs"
        return "held", f"its tip is expired but kept ({why}), and is already directly above the root"
    return "unchanged", "only the root is expired on its path"


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
    """Plan an expiration of a history, with ages of refs relative to `now`. Changes nothing; raises as
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
    """Return the labels of refs in `keep_refs`, younger than `keep_refs_younger_hours`, or of unknown age."""
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
