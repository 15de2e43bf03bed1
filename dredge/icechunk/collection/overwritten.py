"""The sweep of `overwritten/`, where spec 2 leaves a copy of the whole repo info at every change.

The library never removes them; their bytes grow with the square of the number of commits. Kept here are the
chain that the operations log is read from, every copy that the current log names (the chain moves on to
those), and what is younger than a limit of its own. What goes is only the way back to old entries of the
operations log: with later changes the log ends after the newest two thousand entries or so. No snapshot and no
data depends on these files.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.roots import is_old
from dredge.icechunk.format.repo_info import OVERWRITTEN, RepoInfo, parse_repo_info, written_at
from dredge.icechunk.repository import read_repo_info
from dredge.runs.perform import StepRecord
from dredge.storage import ObjectReader

if TYPE_CHECKING:
    from dredge.icechunk.collection.plan import Context

KIND = "overwritten"


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
            raise FormatError(f"{reader.uri}/{OVERWRITTEN}: the chain of the operations log has no end")
        chain.add(link)
        try:
            link = parse_repo_info(reader.get(OVERWRITTEN + link), OVERWRITTEN + link).before_updates
        except NotFoundError:
            break  # an earlier sweep ended the chain here
    return needed | chain


def find_overwritten(context: Context, record: StepRecord) -> None:
    """Add old copies of the repo info to the candidates, when the run asks for it."""
    from dredge.icechunk.collection.listing import write_candidates

    hours = context.plan.config.overwritten_min_age_hours
    if hours is None or context.plan.spec_version != 2:
        return
    cutoff = min(context.plan.cutoff, context.plan.created_at - timedelta(hours=hours))
    needed = needed_copies(context.reader, read_repo_info(context.reader))
    chosen = []
    objects = size_bytes = listed = 0
    for batch in context.reader.list(OVERWRITTEN):
        keys = [key.removeprefix(OVERWRITTEN) for key in batch["key"].to_pylist()]
        times = batch["last_modified"].to_pylist()
        mask = [_may_go(name, time, cutoff, needed) for name, time in zip(keys, times, strict=True)]
        table = pa.Table.from_batches([batch]).filter(pa.array(mask, pa.bool_()))
        listed += batch.num_rows
        objects += table.num_rows
        size_bytes += sum(table["size"].to_pylist())
        chosen.append(table)
    record.parts += write_candidates(
        context.folder, f"{KIND}-0000", chosen, context.plan.config.tuning.candidate_rows
    )
    record.counts.update(
        overwritten_listed_objects=listed,
        overwritten_candidates_objects=objects,
        overwritten_candidates_bytes=size_bytes,
    )


def _may_go(name: str, last_modified: datetime, cutoff: datetime, needed: set[str]) -> bool:
    made = written_at(name)
    return made is not None and name not in needed and made < cutoff and is_old(last_modified, cutoff)
