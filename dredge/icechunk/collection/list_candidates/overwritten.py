"""Old copies of the repo info in `overwritten/`, where spec 2 leaves one at every change.

The library never removes them; their bytes grow with the square of the number of commits. Kept are:

    the chain of copies that the operations log is read from
    every copy that the current log names, because the chain moves on to those
    what is younger than a limit of its own

What goes is only the way back to old entries of the operations log: with later changes the log ends after the newest
two thousand entries or so. No snapshot and no data depends on these files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.age import is_old
from dredge.icechunk.collection.kinds import FOLDERS, OVERWRITTEN
from dredge.icechunk.collection.list_candidates.candidates import without_pinned
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.repo_info import RepoInfo, parse_repo_info, written_at
from dredge.icechunk.repository import read_repo_info
from dredge.sets.live import LocatedSet
from dredge.storage import ObjectReader

_FOLDER = FOLDERS[OVERWRITTEN]


@dataclass(slots=True)
class OldCopies:
    """What was found in `overwritten/`.

    Attributes:
        tables: copies that may be deleted; schema `LISTING_SCHEMA`.
        listed: objects in the folder.
        objects: copies that may be deleted.
        size_bytes: their bytes.
    """

    tables: list[pa.Table] = field(default_factory=list)
    listed: int = 0
    objects: int = 0
    size_bytes: int = 0


def find_old_copies(run: Run, pinned: Sequence[LocatedSet]) -> OldCopies | None:
    """List the old copies of the repo info that may be deleted; None when the run does not ask for any.

    Args:
        run: this run.
        pinned: what is kept for now.

    Raises:
        FormatError: a copy that the operations log needs is damaged.
    """
    hours = run.plan.config.overwritten_min_age_hours
    if hours is None or run.plan.spec_version != 2:
        return None
    cutoff = min(run.plan.cutoff, run.plan.created_at - timedelta(hours=hours))
    needed = needed_copies(run.reader, read_repo_info(run.reader))
    found = OldCopies()
    for batch in run.reader.list(_FOLDER):
        names = [key.removeprefix(_FOLDER) for key in batch["key"].to_pylist()]
        times = batch["last_modified"].to_pylist()
        mask = [_may_go(name, time, cutoff, needed) for name, time in zip(names, times, strict=True)]
        table, _ = without_pinned(pa.Table.from_batches([batch]).filter(pa.array(mask, pa.bool_())), pinned)
        found.listed += batch.num_rows
        found.objects += table.num_rows
        found.size_bytes += sum(table["size"].to_pylist())
        found.tables.append(table)
    return found


def needed_copies(reader: ObjectReader, info: RepoInfo) -> set[str]:
    """Give the copies that the operations log needs: its chain, and all that the current repo info names.

    Raises:
        FormatError: a copy of the chain is damaged, or the chain has no end.
    """
    needed = {update.backup for update in info.updates if update.backup is not None}
    link = info.before_updates
    chain: set[str] = set()
    while link is not None:
        if link in chain:
            raise FormatError(f"{reader.uri}/{_FOLDER}: the chain of the operations log has no end")
        chain.add(link)
        try:
            link = parse_repo_info(reader.get(_FOLDER + link), _FOLDER + link).before_updates
        except NotFoundError:
            break  # an earlier sweep ended the chain here
    return needed | chain


def _may_go(name: str, last_modified: datetime, cutoff: datetime, needed: set[str]) -> bool:
    made = written_at(name)
    return made is not None and name not in needed and made < cutoff and is_old(last_modified, cutoff)
