"""The history of a repository: snapshots with their parents and times, and the refs to them.

A `History` is a value, and the input of every rule and plan. Parents are from the snapshot files (spec 1) or the repo
info (spec 2). A history of spec 1 has the snapshots reachable from refs, a history of spec 2 all snapshots in the repo
info.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.format.metadata import SnapshotEntry, instant

MAIN = "main"


class Ref(Struct, frozen=True, order=True):
    """A branch or a tag: its kind is "branch" or "tag", its tip the id of a snapshot."""

    kind: str
    name: str
    tip: str

    @property
    def label(self) -> str:
        """Kind and name, such as "branch:main"."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, eq=False)
class History:
    """Snapshots by id, and refs by name."""

    spec_version: int
    snapshots: Mapping[str, SnapshotEntry]  # by id; parents are ids of this mapping
    branches: Mapping[str, str]  # tip by name
    tags: Mapping[str, str]  # tip by name
    availability: str = "online"  # "online" unless a repository of spec 2 was set to read-only or offline
    # Snapshots with the time of an expiration in place of their own (`repository.with_restamped`).
    restamped: frozenset[str] = frozenset()

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """Return tags, then branches, each sorted by name: Icechunk's order."""
        return tuple(Ref("tag", name, tip) for name, tip in sorted(self.tags.items())) + tuple(
            Ref("branch", name, tip) for name, tip in sorted(self.branches.items())
        )

    def path(self, tip: str) -> Iterator[SnapshotEntry]:
        """Walk from a snapshot to its root, both included."""
        node: str | None = tip
        steps = 0
        child = "a ref"
        while node is not None:
            entry = self.snapshots.get(node)
            if entry is None:
                raise FormatError(f"snapshot {node}, used by {child}, is missing")
            if steps > len(self.snapshots):
                raise FormatError(f"the parents of snapshot {tip} form a cycle through {node}")
            yield entry
            steps += 1
            child, node = f"snapshot {node} as its parent", entry.parent_id

    def ancestry(self, tip: str) -> list[str]:
        """The ids from a snapshot to its root, newest first."""
        return [entry.id for entry in self.path(tip)]

    def live(self) -> set[str]:
        """Return the live snapshots: on spec 2 all listed ones, on spec 1 the reachable ones."""
        return {*self.snapshots} if self.spec_version == 2 else self.reachable()

    def reachable(self) -> set[str]:
        """All snapshots reachable from refs."""
        return self.reachable_from(ref.tip for ref in self.refs)

    def reachable_from(self, tips: Iterable[str]) -> set[str]:
        """All snapshots reachable from the tips."""
        seen: set[str] = set()
        for tip in tips:
            node: str | None = tip
            while node is not None and node not in seen:
                entry = self.snapshots.get(node)
                if entry is None:
                    raise FormatError(f"snapshot {node} is missing")
                seen.add(node)
                node = entry.parent_id
        return seen

    def children(self) -> dict[str | None, list[str]]:
        """Each snapshot's children, oldest first; roots have the key None."""
        found: dict[str | None, list[str]] = {}
        for entry in sorted(self.snapshots.values(), key=lambda entry: (entry.flushed_at, entry.id)):
            found.setdefault(entry.parent_id, []).append(entry.id)
        return found

    def check(self) -> None:
        """Check that a rule can be applied. Raises FormatError: a ref or parent refers to a missing snapshot, or
        parents form a cycle; RefusedError: a snapshot is not newer than its parent, so "older than" is ambiguous."""
        self.check_links()
        for entry, parent in self.not_newer():
            if parent.id in self.restamped:
                continue
            raise RefusedError(
                f"snapshot {entry.id} ({instant(entry.flushed_at).isoformat()}) is not newer than its parent"
                f" {parent.id} ({instant(parent.flushed_at).isoformat()}): a clock was wrong. Nothing was changed."
                " Such a history can be collected, but not expired. To expire it, make the snapshot unreachable:"
                " create a branch on the newest snapshot to keep, reset each ref that reaches it (main, too) to"
                f" {parent.id} or an ancestor, commit the contents of the new branch there, and delete that branch."
            )

    def not_newer(self) -> Iterator[tuple[SnapshotEntry, SnapshotEntry]]:
        """Yield the snapshots not newer than their parent, with the parent."""
        for entry in self.snapshots.values():
            parent = None if entry.parent_id is None else self.snapshots.get(entry.parent_id)
            if parent is not None and entry.flushed_at <= parent.flushed_at:
                yield entry, parent

    def check_links(self) -> None:
        """Check the tips of refs, and the parents."""
        for ref in self.refs:
            if ref.tip not in self.snapshots:
                raise FormatError(f"{ref.label} points to the missing snapshot {ref.tip}")
        done: set[str] = set()
        for start in self.snapshots:
            trail: list[str] = []
            on_trail: set[str] = set()
            node: str | None = start
            while node is not None and node not in done:
                if node in on_trail:
                    raise FormatError(f"the parents of snapshot {start} form a cycle through {node}")
                entry = self.snapshots.get(node)
                if entry is None:
                    raise FormatError(f"snapshot {trail[-1]} has the missing parent {node}")
                trail.append(node)
                on_trail.add(node)
                node = entry.parent_id
            done.update(trail)

    @property
    def lines(self) -> list[str]:
        """Refs with their tips, and snapshots with parent, time and transaction logs of expired ancestors."""
        return [
            f"spec {self.spec_version}",
            *(f"{ref.label} {ref.tip}" for ref in self.refs),
            *(
                f"{entry.id} {entry.parent_id} {entry.flushed_at} {','.join(entry.pruned)}"
                for _, entry in sorted(self.snapshots.items())
            ),
        ]

    @cached_property
    def digest(self) -> str:
        """Hash of refs, parents and times."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
