"""How long collectors' own files live: what was listed, how old it is, and which versions of a state still count.

A file that no counting version of the state names is never named again, because each version names files of the one
before it and new ones. A run at work was planned on a version that was the newest one in the last week: its mark can be
swept for hours only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.runs.versions import VERSIONS, State, VersionStore
from dredge.storage import ObjectReader
from dredge.xid import descending_time

log = logging.getLogger("dredge")


def run_ids(reader: ObjectReader) -> list[str]:
    """Ids of the runs below a run root, newest first.

    Args:
        reader: on the run root.
    """
    names = [folder.rstrip("/") for folder in reader.list_level("").folders]
    return sorted(name for name in names if is_run_id(name))


def is_run_id(name: str) -> bool:
    """Whether a name is one that runs get: a descending xid."""
    try:
        descending_time(name)
    except FormatError:
        return False
    return True


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
