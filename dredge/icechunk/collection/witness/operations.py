"""Spec 2: the operations log as a witness, and refs of spec 1 beside the repo info.

    repo → latest updates → copy in overwritten/ → its updates → …      newest first, times strictly fall

Every change of the repo info adds an entry. A log without the newest entry of the last mark belongs to an earlier or
another repo info. A missing copy cuts the chain: older entries are unknown.

An upgrade leaves `refs/` beside `repo`, and a program that still writes spec 1 changes these files without the repo
info. A ref file or a tip later than the upgrade shows such a program; older files are leftovers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from dredge.errors import NotFoundError
from dredge.icechunk.format.refs import REFS_FOLDER, live_refs, parse_ref
from dredge.icechunk.format.repo_info import OVERWRITTEN, RepoInfo, Update, parse_repo_info
from dredge.icechunk.format.snapshots import instant, parse_snapshot
from dredge.icechunk.repository import SNAPSHOTS
from dredge.storage import ObjectReader

_DROPS = frozenset({"expiration ran", "collection ran"})
"""Operations that drop snapshots from the repo info without their names."""
_MOVES_BACK = frozenset({"branch reset", "amend"})


class OperationsLog:
    """The operations of a repository, read on demand."""

    def __init__(self, reader: ObjectReader, info: RepoInfo) -> None:
        self._reader = reader
        self._info = info
        self.is_cut = False

    @property
    def newest(self) -> tuple[str, int] | None:
        """Kind and time of the newest operation; None for an empty log."""
        return self._info.newest

    def __iter__(self) -> Iterator[Update]:
        info = self._info
        while True:
            yield from info.updates
            if info.before_updates is None:
                return
            found = self._copy(info.before_updates)
            if found is None:
                self.is_cut = True
                return
            info = found

    def since(self, operation: tuple[str, int]) -> Since:
        """Find an operation, given by kind and time."""
        later: list[Update] = []
        for update in self:
            if update.operation == operation:
                return Since(True, (*later, update))
            if update.updated_at < operation[1]:
                return Since(False, (*later, update))
            later.append(update)
        return Since(None if self.is_cut else False, tuple(later))

    def migrated_at(self) -> int | None:
        """Time of the upgrade from spec 1 (microseconds); None if missing, or for a log cut before it."""
        return next((update.updated_at for update in self if update.kind == "repository migrated"), None)

    def parents_before_drops(self, since: Since) -> Mapping[str, frozenset[str]]:
        """The parents of snapshots right before operations that dropped some."""
        found: dict[str, set[str]] = {}
        for update, before in pairwise(since.updates):
            if update.kind not in _DROPS or before.backup is None:
                continue
            info = self._copy(before.backup)
            for entry in () if info is None else info.snapshots:
                if entry.parent_id is not None:
                    found.setdefault(entry.id, set()).add(entry.parent_id)
        return {node: frozenset(parents) for node, parents in found.items()}

    def _copy(self, name: str) -> RepoInfo | None:
        key = f"{OVERWRITTEN}{name}"
        try:
            return parse_repo_info(self._reader.get(key), key)
        except NotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Since:
    """The log after an operation.

    Attributes:
        is_there: whether the log has the operation; None for a log cut before it.
        updates: later operations, newest first, then the operation itself or the entry in its place.
    """

    is_there: bool | None
    updates: tuple[Update, ...]

    def moved_back(self, branch: str) -> bool:
        """Whether a branch was reset or amended since."""
        return any(update.kind in _MOVES_BACK and update.ref == branch for update in self.updates)


@dataclass(frozen=True, slots=True)
class OldRef:
    """A ref of spec 1 in a repository of spec 2, such as "branch:main", with its tip and the time of its file."""

    label: str
    tip: str
    written_at: datetime


def read_old_refs(reader: ObjectReader) -> list[OldRef]:
    """Read the refs of spec 1."""
    times: dict[str, datetime] = {}
    for batch in reader.list(REFS_FOLDER):
        times |= zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True)
    names = {key: ref for ref, key in live_refs([key for key in times if not key.endswith("/")]).items()}
    return [
        OldRef(":".join(names[key]), parse_ref(data, key), times[key])
        for key, data in reader.get_many(sorted(names))
    ]


def later_than(reader: ObjectReader, ref: OldRef, migrated_at: int | None) -> bool:
    """Whether a ref file or its tip is later than the upgrade (microseconds); True if that time is unknown."""
    if migrated_at is None or ref.written_at > instant(migrated_at):
        return True
    key = SNAPSHOTS + ref.tip
    try:
        return parse_snapshot(reader.get(key), key).flushed_at > migrated_at
    except NotFoundError:
        return False
