"""Metarange files that count as active commits although no active commit names them.

    written since the cutoff                                               always
    written in the last `keep_unnamed_days`, or since the last complete    if no commit that the server shows names it,
    mark where that is longer                                              and no commit of an earlier mark did

Such a file is a commit that was lost with lakeFS's database, one in the making (lakeFS writes the tree, runs hooks, and
moves the branch last), or one of a branch that was made and deleted between two marks.

Ranges and metaranges lie side by side in `_lakefs/`, and only their content says which is which. Active metaranges and
the committed index name most of them. Any other file is opened once, at its end, and its kind is remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import FormatError, RefusedError
from dredge.gc.index.store import CommittedIndex
from dredge.gc.metadata.deleting import Sought, seek_metaranges
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.lakefs.files.ranges import is_table_id
from dredge.lakefs.files.sstable import METARANGES
from dredge.lakefs.files.sstable.envelope import Envelope, read_envelope
from dredge.storage import ObjectInfo, ObjectReader, ObjectWriter
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

type Files = dict[str, ObjectInfo]
"""Range and metarange files of a namespace by id."""

_AT_ONCE = 16
_TAIL_BYTES = 64 * 1024
DUMP, DAMAGED = "refs dump", "damaged"


def list_tables(reader: ObjectReader) -> Files:
    """List range and metarange files, and those of refs dumps, which are named alike.

    Args:
        reader: on the storage namespace.
    """
    found = ((info.key.removeprefix(METADATA), info) for info in reader.list_level(METADATA).objects)
    return {name: info for name, info in found if is_table_id(name)}


def with_metaranges(run: Run, files: Files, metaranges: Iterable[str], warn: Callable[[str], None]) -> Files:
    """See that the metarange of each active commit is there. One that is missing is put back where a collection of
    metadata let it go and has a copy; else the mark is refused.

    Args:
        run: the run, which the other witnesses have passed.
        files: listed after the commits were read.
        metaranges: of active commits, all read; "" is the content without entries.
        warn: is told of what was put back.

    Returns:
        The files that are there now.

    Raises:
        RefusedError: one is missing.
    """
    wanted = {item for item in metaranges if item}
    if not wanted - files.keys():
        return files
    sought = seek_metaranges(
        run.plan.namespace, wanted - files.keys(), files, run.plan.created_at, run.options
    )
    if sought.back:
        warn(
            f"{len(sought.back):,} files of {METADATA} that active commits name, and that collections of metadata had"
            f" deleted, were put back, such as {sought.back[0]}"
        )
        files = list_tables(run.reader)
    if missing := sorted(wanted - files.keys()):
        raise RefusedError(
            f"run {run.plan.run_id}: {len(missing):,} metaranges of active commits are not in the bucket, such as"
            f" {METADATA}{missing[0]}{_let_go_by(missing, sought)}. Their objects cannot be told from garbage. Nothing"
            " was deleted. Restore them (a backup, an older version of the bucket), then start a new run."
        )
    return files


def _let_go_by(missing: Sequence[str], sought: Sought) -> str:
    name = next((name for name in missing if name in sought.deleted_by), None)
    if name is None:
        return " (no collection of metadata deleted them)"
    return f" (collection of metadata {sought.deleted_by[name]} deleted {name}, and no copy of it is left)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of metaranges and ranges.

    Attributes:
        named: metaranges that a commit names which the server shows.
        earlier: metaranges that commits of earlier marks named.
        ranges: ids of ranges.
        kinds: kinds of files that were opened before.
        forgotten: metaranges that a person has given up, each with the time of the decision.
    """

    named: set[str]
    earlier: set[str]
    ranges: Collection[str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    forgotten: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(slots=True)
class Unnamed:
    """Metaranges that count as active commits.

    Attributes:
        young: written since the cutoff, whatever names them.
        lost: older ones that no known commit names.
        kinds: kinds of files that were opened, now and before.
    """

    young: set[str]
    lost: set[str]
    kinds: dict[str, str]

    @property
    def metaranges(self) -> set[str]:
        """All of them."""
        return self.young | self.lost


def find_unnamed(run: Run, files: Files, known: Known, since: datetime) -> Unnamed:
    """Find the metarange files that count as active commits in a mark or a re-check.

    Args:
        run: the run.
        files: listed after the commits were read.
        known: what is known of them.
        since: files that no known commit names count if they were written then or later.
    """
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
    """Find the metarange files that count as active commits.

    Args:
        reader: on the storage namespace.
        state: on the folder of lease and index.
        namespace: URI of the storage namespace.
        files: listed after the commits were read.
        known: what is known of them.
        cutoff: files that were written then or later count, whatever names them.
        since: files that no known commit names count if they were written then or later.
    """
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
    """Open files of `_lakefs/` at their end and read what each is.

    Args:
        reader: on the storage namespace.
        files: to open.

    Returns:
        By name: `ranges`, `metaranges`, `DUMP`, or `DAMAGED` for a file that no lakeFS can read.
    """
    wanted = list(files)
    envelopes = ordered_map(lambda info: _envelope_or_none(reader, info), wanted, _AT_ONCE)
    found = {
        info.key.removeprefix(METADATA): DAMAGED if envelope is None else kind_of(envelope)
        for info, envelope in zip(wanted, envelopes, strict=True)
    }
    for name, kind in found.items():
        if kind == DAMAGED:
            log.warning("%s%s is named like a table and cannot be read as one", METADATA, name)
    return found


def kind_of(envelope: Envelope) -> str:
    """`ranges`, `metaranges`, or `DUMP`."""
    return envelope.kind if envelope.entity is None else DUMP


def open_table(reader: ObjectReader, info: ObjectInfo) -> Envelope:
    """Open a file of `_lakefs/` at its end.

    Args:
        reader: on the storage namespace.
        info: of the file.

    Raises:
        FormatError: no lakeFS can read it.
    """
    size = min(info.size, _TAIL_BYTES)
    tail = reader.get_range(info.key, info.size - size, size)
    try:
        return read_envelope(bytes(info.size - size) + tail, info.key, None, None)
    except FormatError:  # its properties hold long keys
        return read_envelope(reader.get(info.key), info.key, None, None)


def _envelope_or_none(reader: ObjectReader, info: ObjectInfo) -> Envelope | None:
    try:
        return open_table(reader, info)
    except FormatError:
        return None


def _is_forgotten(known: Known, name: str, info: ObjectInfo) -> bool:
    """Whether a person gave up the file as it is; one that was written again since counts."""
    decided = known.forgotten.get(name)
    return decided is not None and info.last_modified <= decided
