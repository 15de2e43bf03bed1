"""Metarange files counted as active commits without an active commit.

    written since the cutoff                              always
    written in the last `keep_unnamed_days`, or since     without a commit known to the server, and without a commit of
    the last complete mark if longer                      an earlier mark

Such a file belongs to a commit lost with lakeFS's database, to a commit in progress (lakeFS writes the tree, runs
hooks, and moves the branch last), or to a short-lived branch between two marks.

Ranges and metaranges share `_lakefs/`, and only their content shows the kind. Active metaranges and the committed index
name most of them. Any other file is opened once, at its end, and its kind is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import FormatError, RefusedError
from dredge.gc.index.store import CommittedIndex
from dredge.gc.metadata.deleting import Sought, restore_metaranges
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.gc.witness.record import Known
from dredge.lakefs.files.ranges import is_table_id
from dredge.lakefs.files.sstable import METARANGES
from dredge.lakefs.files.sstable.layout import Envelope, read_envelope
from dredge.storage import ObjectInfo, ObjectReader, ObjectWriter
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

type Files = dict[str, ObjectInfo]
"""Range and metarange files of a namespace by id."""

_AT_ONCE = 16
_TAIL_BYTES = 64 * 1024
DUMP, DAMAGED = "refs dump", "damaged"


@dataclass(slots=True)
class Unnamed:
    """Metaranges counted as active commits."""

    young: set[str]  # written since the cutoff
    lost: set[str]  # older, without a known commit
    kinds: dict[str, str]  # kinds of opened files, also of earlier marks

    @property
    def metaranges(self) -> set[str]:
        """All of them."""
        return self.young | self.lost


def list_tables(reader: ObjectReader) -> Files:
    """List range and metarange files and those of refs dumps, which have equal names."""
    found = ((info.key.removeprefix(METADATA), info) for info in reader.list_level(METADATA).objects)
    return {name: info for name, info in found if is_table_id(name)}


def demand_metaranges(
    run: Run, files: Files, metaranges: Iterable[str], warn: Callable[[str], None]
) -> Files:
    """Restore missing metaranges of active commits from copies of collections of metadata, else refuse the mark;
    return the current files. The run has passed the other witnesses, and the files were listed after the commits
    were read."""
    wanted = {item for item in metaranges if item}
    if not wanted - files.keys():
        return files
    sought = restore_metaranges(
        run.plan.namespace, wanted - files.keys(), files, run.plan.created_at, run.options
    )
    if sought.back:
        warn(
            f"{len(sought.back):,} files of {METADATA}, deleted by collections of metadata and used by active commits,"
            f" were restored, such as {sought.back[0]}"
        )
        files = list_tables(run.reader)
    if missing := sorted(wanted - files.keys()):
        raise RefusedError(
            f"run {run.plan.run_id}: {len(missing):,} metaranges of active commits are not in the bucket, such as"
            f" {METADATA}{missing[0]}{_deleted_by(missing, sought)}. Live objects cannot be determined. Nothing was"
            " deleted. Restore them (a backup, an older version of the bucket), then start a new run."
        )
    return files


def _deleted_by(missing: Sequence[str], sought: Sought) -> str:
    name = next((name for name in missing if name in sought.deleted_by), None)
    if name is None:
        return " (no collection of metadata deleted them)"
    return f" (collection of metadata {sought.deleted_by[name]} deleted {name}, and no copy of it is left)"


def find_unnamed(run: Run, files: Files, known: Known, since: datetime) -> Unnamed:
    """Find the metaranges counted as active commits in a mark or a re-check; see `sort_out`."""
    return sort_out(run.reader, run.state, run.plan.namespace, files, known, run.plan.cutoff, since)


def sort_out(
    reader: ObjectReader,
    state: ObjectWriter,
    namespace: str,
    files: Files,
    known: Known,
    cutoff: datetime,
    since: datetime,
) -> Unnamed:
    """Find the metaranges counted as active commits: all written at the cutoff or later, and those without a known
    commit written at `since` or later. The files were listed after the commits were read."""
    young = {name for name, info in files.items() if info.last_modified >= cutoff}
    recent = {
        name
        for name, info in files.items()
        if info.last_modified >= since and not _is_forgotten(known, name, info)
    }
    metaranges = known.named | known.earlier
    unknown = ((young | recent) - metaranges).difference(known.ranges, known.kinds)
    kinds = {name: kind for name, kind in known.kinds.items() if name in recent or name in young}
    if unknown:
        unknown -= CommittedIndex.load(state, namespace).places.keys()
        kinds |= read_kinds(reader, [files[name] for name in sorted(unknown)])
    found = {name for name, kind in kinds.items() if kind == METARANGES}
    return Unnamed(
        young=young & (metaranges | found),
        lost=((recent & found) - metaranges) - young,
        kinds=kinds,
    )


def read_kinds(reader: ObjectReader, files: Iterable[ObjectInfo]) -> dict[str, str]:
    """Read the kind of files of `_lakefs/`, by name: `ranges`, `metaranges`, `DUMP`, or `DAMAGED` if unreadable."""
    wanted = list(files)

    def read(info: ObjectInfo) -> str:
        try:
            return kind_of(open_table(reader, info))
        except FormatError:
            log.warning("%s has the name of a range or metarange and cannot be read as one", info.key)
            return DAMAGED

    kinds = ordered_map(read, wanted, _AT_ONCE)
    return {info.key.removeprefix(METADATA): kind for info, kind in zip(wanted, kinds, strict=True)}


def find_metarange_before(reader: ObjectReader, time: datetime, known: Collection[str] = ()) -> str | None:
    """Find a metarange written before a time; known names are not opened."""
    older = {name: info for name, info in sorted(list_tables(reader).items()) if info.last_modified < time}
    found = next((name for name in older if name in known), None)
    if found is not None:
        return found
    kinds = read_kinds(reader, older.values())
    return next((name for name, kind in kinds.items() if kind == METARANGES), None)


def kind_of(envelope: Envelope) -> str:
    """Return `ranges`, `metaranges`, or `DUMP`."""
    return envelope.kind if envelope.entity is None else DUMP


def open_table(reader: ObjectReader, info: ObjectInfo) -> Envelope:
    """Read the end of a file of `_lakefs/`."""
    size = min(info.size, _TAIL_BYTES)
    # S3 refuses a range of an empty file.
    tail = reader.get_range(info.key, info.size - size, size) if size else b""
    try:
        return read_envelope(bytes(info.size - size) + tail, info.key, None, None)
    except FormatError:  # its properties have long keys
        return read_envelope(reader.get(info.key), info.key, None, None)


def _is_forgotten(known: Known, name: str, info: ObjectInfo) -> bool:
    """Whether a person gave up the file. A file written again since counts."""
    decided = known.forgotten.get(name)
    return decided is not None and info.last_modified <= decided
