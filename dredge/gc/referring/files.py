"""The range files of a referring repository. What each is, is read once: the index remembers ranges, and a file beside
it the names of all others.

    <state>/referring/<repository>/index/…
    <state>/referring/<repository>/others.parquet      name: metaranges and refs dumps that were opened
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import pyarrow as pa

from dredge.errors import DredgeError, RefusedError, UnavailableError
from dredge.gc.index.metaranges import read_ranges
from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.index.store import CommittedIndex
from dredge.gc.namespaces import METADATA
from dredge.gc.referring.repositories import ReferringRun
from dredge.gc.witness.unnamed import kind_of, list_tables, open_table
from dredge.lakefs.files.sstable import RANGES
from dredge.runs.parts import parquet_bytes, read_parquet
from dredge.runs.tasks import TaskRunner
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_OTHERS = "others.parquet"
_AT_ONCE = 16


def find_ranges(run: ReferringRun, runner: TaskRunner, where: str, metaranges: Collection[str]) -> Ranges:
    """Find every range file in the namespace of a referring repository, whatever names it.

    Args:
        run: on the referring repository; its staging has been read.
        runner: spreads the reading of metaranges.
        where: folder for files and progress, in the run folder.
        metaranges: ids of those of the branch heads, seen before now.

    Raises:
        RefusedError: a file that a branch head needs is not there.
        FormatError: a file cannot be read.
    """
    files = list_tables(run.reader)
    heads = read_ranges(run, runner, f"{where}/heads", metaranges)
    if missing := sorted({*heads, *metaranges} - files.keys()):
        raise RefusedError(f"{METADATA}{missing[0]}, which a branch needs, is not in {run.reader.uri}.")
    index = CommittedIndex.load(run.state, run.keys.namespace)
    others = _read_others(run)
    ranges: Ranges = {}
    unknown = []
    for name, info in files.items():
        if index.part_of(name) is not None:
            ranges[name] = RangeFacts(index.places[name][1], b"", b"")
        elif name in heads:
            ranges[name] = heads[name]
        elif name not in others and name not in metaranges:
            unknown.append(info)
    opened = set(metaranges)
    for info, table in zip(
        unknown, ordered_map(lambda info: open_table(run.reader, info), unknown, _AT_ONCE), strict=True
    ):
        name = info.key.removeprefix(METADATA)
        if kind_of(table) != RANGES:
            opened.add(name)
        elif table.records:
            ranges[name] = RangeFacts(table.records, b"", table.max_key)
    if opened - others:
        names = pa.table({"name": pa.array(sorted((others | opened) & files.keys()), pa.string())})
        run.state.put(_OTHERS, parquet_bytes(names))
    return ranges


def _read_others(run: ReferringRun) -> set[str]:
    """Names of files that are no ranges; none where that is not known any more: they are opened again."""
    try:
        return set(read_parquet(run.state.get(_OTHERS))["name"].to_pylist())
    except UnavailableError:
        raise
    except (DredgeError, KeyError) as error:
        log.info("files of %s are opened: %s", run.plan.repository, error)
        return set()
