"""The three expiration rules, as pure functions of a history.

    document   the founding design: for each ref with a living tip, the oldest non-expired snapshot on its path gets the
               root as parent; a ref with an expired tip keeps its whole history
    spec_v1    Icechunk's rule on spec 1 since 0.2.10: the same, and an expired tip gets the root
    spec_v2    Icechunk's rule on spec 2: over all snapshots at once; protected tips stay, every kept snapshot with a
               released parent gets the root

A snapshot is expired if its time is strictly before the threshold. Roots are never released and never edited, main is
never deleted, and no edit can make a cycle: the only new parent is the root of the edited snapshot's own path. The
rules rely on times that fall strictly from child to parent (`History.check`): a path is a living part, then an expired
part. The exception is a snapshot with the time of an expiration by an old release (`History.restamped`): while it
lives, its path is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dredge.icechunk.format.metadata import SnapshotEntry
from dredge.icechunk.history import MAIN, History, Ref


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

    Deletion of refs is the document's optional part: with the flags, refs with an expired tip are deleted, except main
    and refs on a root, which keep no snapshot from release.

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
            snapshots[snapshot] = replace(entry, parent_id=parent, pruned=logs)
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
