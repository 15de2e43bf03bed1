"""Objects that a request may be about to stage: those uploaded in parts that appeared right before the listing.

On S3 such an object carries the time at which its upload began, so it may look old when it appears (L7). The server
that completed the upload stages it afterwards. A listing in between sees an old object that nobody has staged, and
so does every later look, as long as that server takes. So it is kept unless it was there for long enough when it was
looked for the last time: this run's candidates were complete that long ago, or the pending list of the run before has
it and was left that long ago.

    candidates ──── settle time ────▶ re-check reads staging → deleted
    candidates ── less ──▶ re-check reads staging            → kept; the next run has known it for long enough

A candidate as long as an entry of a branch head is not looked for by the re-check: when the same bytes are uploaded
again, the server does not show them as staged (L6). It was looked for when branches were asked about it, in
`check_limits`, so it must have been there for long enough by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SAME_SIZE, SubtractOutput
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import LIVE
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.storage import open_writer
from dredge.storage.schemes import canonical_scheme

_PLAIN = r"^[0-9a-f]{32}$"
_IN_PARTS = r"^[0-9a-f]{32}-[0-9]+$"
_COLUMNS = ["address", "etag"]

type KnownBy = Literal["this run", "the run before", "nobody"]
"""Whose candidates were there for long enough before a look; those of this run are then known by both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What a sweep needs to know of objects that may just have appeared; a payload.

    Attributes:
        known: who knew long enough before the re-check what was there.
        known_when_asked: who did before branches were asked about candidates as long as an entry of a head.
        opaque: whether an ETag of any other form may be that of an object uploaded in parts.
        before_uri: folder with the pending list of the run before.
        before: its files.
    """

    known: KnownBy = "this run"
    known_when_asked: KnownBy = "this run"
    opaque: bool = False
    before_uri: str = ""
    before: list[PartInfo] = field(default_factory=list)

    @property
    def keeps_something(self) -> bool:
        """Whether anything may have to be kept."""
        return (self.known, self.known_when_asked) != ("this run", "this run")


class Appeared:
    """Tells in a task which of its candidates may just have appeared.

    Args:
        settling: what is known.
        folder: the run folder.
        parts: the candidates of the task.
    """

    def __init__(self, settling: Settling, folder: RunFolder, parts: Sequence[PartInfo]) -> None:
        self._settling = settling
        self._folder = folder
        self._parts = parts

    def among(self, rows: pa.Table) -> pa.BooleanArray:
        """Tell of each candidate whether a request may be about to stage it.

        Args:
            rows: some candidates of the task.

        Raises:
            FormatError: a file of the run before is not as it was written.
        """
        settling = self._settling
        if not settling.keeps_something:
            return pa.array([False] * rows.num_rows, pa.bool_())
        in_parts = self._in_parts(rows)
        asked = pc.fill_null(pc.equal(rows["hold"], SAME_SIZE), False)
        free = self._unknown(rows, in_parts, settling.known)
        return pc.if_else(asked, self._unknown(rows, in_parts, settling.known_when_asked), free)

    def _in_parts(self, rows: pa.Table) -> pa.BooleanArray:
        etags = pc.fill_null(rows["etag"].combine_chunks(), "")
        if self._settling.opaque:
            return pc.invert(pc.match_substring_regex(etags, _PLAIN))
        return pc.match_substring_regex(etags, _IN_PARTS)

    def _unknown(self, rows: pa.Table, in_parts: pa.BooleanArray, known: KnownBy) -> pa.BooleanArray:
        if known == "this run":
            return pc.and_(in_parts, False)
        # Few objects are uploaded in parts, so that what the run before knew is seldom needed.
        if known == "nobody" or not pc.any(in_parts).as_py():
            return in_parts
        return pc.and_not(in_parts, pc.is_in(_objects(rows), self._known_before))

    @cached_property
    def _known_before(self) -> pa.Array:
        """Those of the task's candidates that are in the pending list of the run before, found in one pass over it.

        Names and ETags are compared, not hashes: another object may have the hash, and frees nothing.
        """
        own = [self._folder.read_part(part, _COLUMNS) for part in self._parts]
        wanted = pa.concat_arrays([_objects(rows.filter(self._in_parts(rows))) for rows in own])
        before = RunFolder(open_writer(self._settling.before_uri), "the run before")
        found = [pa.nulls(0, pa.string())]
        for rows in before.read_parts(self._settling.before, [*_COLUMNS, "status"]):
            # A row of what was live says nothing of the store.
            objects = _objects(rows.filter(pc.not_equal(rows["status"], LIVE)).combine_chunks())
            found.append(objects.filter(pc.is_in(objects, wanted)))
        return pa.concat_arrays(found)


def _objects(rows: pa.Table) -> pa.StringArray:
    """Name and ETag of each object as one text."""
    names, etags = (rows[name].cast(pa.string()).combine_chunks() for name in _COLUMNS)
    joined = pc.binary_join_element_wise(names, pc.fill_null(etags, ""), "\0")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def look_at_settling(run: Run, record: StepRecord) -> Settling:
    """Find out which objects have been there for long enough. Comes right before a re-check.

    Args:
        run: this run.
        record: of the sweep. All candidates were in the store before they were complete.
    """
    candidates = record.input(SubtractOutput).summary.finished_at
    # Two machines wrote down when candidates were complete and when branches were asked.
    asked_at = record.input(CheckLimitsOutput).summary.started_at - _skew(run)
    now = run.store_now()
    known, known_when_asked = _is_settled(run, candidates, now), _is_settled(run, candidates, asked_at)
    if known and known_when_asked:
        return Settling()
    before = record.input(SubtractOutput).known_list(run.folder)
    left_at = None if before.pending is None else before.pending.left_at
    return Settling(
        known=_known_by(run, known, left_at, now),
        known_when_asked=_known_by(run, known_when_asked, left_at, asked_at),
        opaque=canonical_scheme(run.plan.namespace.partition("://")[0]) == "s3",
        before_uri=run.state.uri,
        before=before.parts,
    )


def _known_by(run: Run, by_this_run: bool, left_at: datetime | None, at: datetime) -> KnownBy:
    if by_this_run:
        return "this run"
    return "the run before" if left_at is not None and _is_settled(run, left_at, at) else "nobody"


def _is_settled(run: Run, known_at: datetime, at: datetime) -> bool:
    """Whether objects were known long enough before; the clock that wrote this down may differ from the store's."""
    seconds = run.plan.config.safety.multipart_settle_seconds
    return not seconds or at - known_at >= timedelta(seconds=seconds) + _skew(run)


def _skew(run: Run) -> timedelta:
    return timedelta(seconds=run.plan.config.safety.clock_skew_seconds_max)
