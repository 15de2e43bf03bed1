"""The operations log of spec 2 as a witness: the newest operation that the last mark read must be in it.

    repo → latest updates → copy in overwritten/ → its updates → …      newest first, times strictly fall

Every change of the repo info adds an entry. A log without an entry that was there belongs to an earlier repo info, or
to another one. A copy that is gone cuts the chain: what lies behind it says nothing.

`refs/` beside `repo`: left by an upgrade to spec 2, or written by a program that goes on with spec 1.

The repo info knows nothing of what such a program commits. A ref file or a tip that is later than the upgrade shows
one; files of before the upgrade are left over.
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
"""Operations that take snapshots out of the repo info, and do not say which."""
_MOVES_BACK = frozenset({"branch reset", "amend"})


class OperationsLog:
    """The operations of a repository, read as far as they are asked for."""

    def __init__(self, reader: ObjectReader, info: RepoInfo) -> None:
        self._reader = reader
        self._info = info
        self.is_cut = False

    @property
    def newest(self) -> tuple[str, int] | None:
        """Kind and time of the newest operation; None when the log is empty."""
        updates = self._info.updates
        return (updates[0].kind, updates[0].updated_at) if updates else None

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
        """Look for an operation in the log."""
        later: list[Update] = []
        for update in self:
            if (update.kind, update.updated_at) == operation:
                return Since(True, (*later, update))
            if update.updated_at < operation[1]:
                return Since(False, (*later, update))
            later.append(update)
        return Since(None if self.is_cut else False, tuple(later))

    def migrated_at(self) -> int | None:
        """Time of the upgrade from spec 1 (microseconds); None when the log has none, or is cut before it."""
        return next((update.updated_at for update in self if update.kind == "repository migrated"), None)

    def parents_before_drops(self, since: Since) -> Mapping[str, frozenset[str]]:
        """Give the parents of snapshots as they were right before operations that took some out."""
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
    """What the log says about an operation.

    Attributes:
        is_there: whether the log has it; None when the log is cut before it.
        updates: the operations after it, newest first, and behind these itself, or what stands at its place.
    """

    is_there: bool | None
    updates: tuple[Update, ...]

    def moved_back(self, branch: str) -> bool:
        """Whether somebody reset or amended a branch since."""
        return any(update.kind in _MOVES_BACK and update.ref == branch for update in self.updates)


@dataclass(frozen=True, slots=True)
class OldRef:
    """A ref of spec 1 in a repository of spec 2.

    Attributes:
        label: "branch:main" or "tag:v1".
        tip: id of the snapshot that it points to.
        written_at: time of its file, by the store's clock.
    """

    label: str
    tip: str
    written_at: datetime


def read_old_refs(reader: ObjectReader) -> list[OldRef]:
    """Read the refs of spec 1; [] when there are none.

    Raises:
        FormatError: a file in `refs/` is no ref, or holds no id.
    """
    times: dict[str, datetime] = {}
    for batch in reader.list(REFS_FOLDER):
        times |= zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True)
    names = {key: ref for ref, key in live_refs([key for key in times if not key.endswith("/")]).items()}
    return [
        OldRef(":".join(names[key]), parse_ref(data, key), times[key])
        for key, data in reader.get_many(sorted(names))
    ]


def later_than(reader: ObjectReader, ref: OldRef, migrated_at: int | None) -> bool:
    """Whether a ref file or its tip is later than the upgrade; also when the time of the upgrade is not known."""
    if migrated_at is None or ref.written_at > instant(migrated_at):
        return True
    key = SNAPSHOTS + ref.tip
    try:
        return parse_snapshot(reader.get(key), key).flushed_at > migrated_at
    except NotFoundError:
        return False
