"""Removes what collectors wrote for themselves: only names that they say are their own, and only under their lease.

A file that no counting version of the state names is never named again, because each version names files of the one
before it and new ones. A run at work was planned on a version that was the newest one in the last week: its mark can be
swept for hours only.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import batched

import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.runs.steps import StepRecord
from dredge.runs.versions import VERSIONS, State, VersionStore
from dredge.storage import DeleteOutcome, ObjectReader, StorageOptions, open_deleter

log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """A listing.

    Attributes:
        sizes: of every file.
        aged: those last modified before an instant.
    """

    sizes: dict[str, int]
    aged: frozenset[str]

    @classmethod
    def of(cls, reader: ObjectReader, prefix: str, before: datetime) -> ListedFiles:
        """List what is below a prefix.

        Args:
            reader: on a folder.
            prefix: relative to it.
            before: what was last modified strictly before this instant is aged.
        """
        sizes: dict[str, int] = {}
        aged: set[str] = set()
        for batch in reader.list(prefix):
            keys = batch["key"].to_pylist()
            sizes.update(zip(keys, batch["size"].to_pylist(), strict=True))
            is_old = pc.less(batch["last_modified"], before).to_pylist()
            aged.update(key for key, old in zip(keys, is_old, strict=True) if old)
        return cls(sizes, frozenset(aged))

    def below(self, prefix: str) -> list[str]:
        """Every file below a prefix, sorted."""
        return sorted(key for key in self.sizes if key.startswith(prefix))

    def old(self, prefix: str) -> list[str]:
        """The aged files below a prefix, sorted."""
        return [key for key in self.below(prefix) if key in self.aged]


def counting_versions[S: State](store: VersionStore[S], files: ListedFiles, folder: str) -> dict[str, S]:
    """Read the versions of a state that were the newest one at some time since files age: those written since, and the
    last one before.

    Args:
        store: of the state.
        files: listed before anything is read, with what lies in the state's folder.
        folder: of the state in that listing, with its slash; "" when the listing is of that folder.

    Returns:
        States by the name of their file. The newest of all is among them.

    Raises:
        FormatError: the newest of all cannot be read. Another one that cannot be, no run can build on.
    """
    newest = store.newest()
    names = [key.removeprefix(folder) for key in files.below(f"{folder}{VERSIONS}/")]
    young = [name for name in names if f"{folder}{name}" not in files.aged]
    # Run ids sort newest first.
    wanted = dict.fromkeys([*young, *(name for name in names if name not in young)][: len(young) + 1])
    found = {} if newest is None else {newest.name: _load(store, newest.name, newest.sha256)}
    for name in wanted:
        if name in found:
            continue
        try:
            found[name] = _load(store, name, None)
        except FormatError as error:
            log.info("%s", error)
    return found


def _load[S: State](store: VersionStore[S], name: str, sha256: str | None) -> S:
    try:
        return store.read(name, sha256)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the version {name} of the state cannot be read: {error}") from None


_KEYS = 1000


class OwnFilesDeleter:
    """Deletes a collector's own files below one folder, and nothing else.

    Args:
        uri: the folder.
        is_own: whether a key, relative to it, is one that only the collector writes, and a later run can do without.
        options: how the store is reached; None reads the environment.
    """

    def __init__(
        self, uri: str, is_own: Callable[[str], bool], options: StorageOptions | None = None
    ) -> None:
        self._uri = uri
        self._is_own = is_own
        self._deleter = open_deleter(uri, options)

    def delete(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        """Delete files.

        Args:
            keys: relative to the folder.

        Returns:
            One outcome a key, in the same order.

        Raises:
            RefusedError: one of them is no such file. None was deleted.
        """
        for key in keys:
            if not self._is_own(key):
                raise RefusedError(
                    f"{key!r} is not one of Dredge's own files below {self._uri}. Nothing was deleted. Please report"
                    " this."
                )
        return self._deleter.delete(keys)


def remove_own_files(
    deleter: OwnFilesDeleter, keys: Sequence[str], check_right: Callable[[], None], record: StepRecord
) -> None:
    """Remove files that nothing needs any more.

    Args:
        deleter: for the files.
        keys: of these, in the order in which they go.
        check_right: asked before each request; raises where the lease is lost.
        record: of the step; takes the figure, and a warning where files are left.
    """
    outcomes: Counter[str] = Counter()
    for some in batched(keys, _KEYS):
        check_right()
        outcomes.update(outcome.outcome for outcome in deleter.delete(some))
    removed = outcomes["deleted"] + outcomes["missing"]
    record.counts["own_files_removed"] = removed
    if removed < len(keys):
        record.warn(
            f"{len(keys) - removed:,} of {len(keys):,} own files that nothing needs any more could not be removed; a"
            " later run tries again"
        )
