"""Objects that a request may be about to stage: those uploaded in parts that appeared right before the listing.

On S3 such an object carries the time at which its upload began, so it may look old when it appears (L7). The server
that completed the upload stages it afterwards. A listing in between sees an old object that nobody has staged, and
so does every later look, as long as that server takes. So it is kept unless it was there for long enough when the
re-check begins: this run's candidates were complete that long ago, or those of the run before, which carried it over.

    candidates ──── settle time ────▶ re-check reads staging → deleted
    candidates ── less ──▶ re-check reads staging            → kept; the next run has known it for long enough
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.run import Run
from dredge.gc.sets.files import read_hashes, write_hashes
from dredge.gc.sets.hashes import NONE, contains, unite
from dredge.gc.state.base import Base, open_base
from dredge.gc.subtract import SubtractOutput
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, StepSummary
from dredge.storage.schemes import canonical_scheme

log = logging.getLogger("dredge")

_PLAIN = r"^[0-9a-f]{32}$"
_IN_PARTS = r"^[0-9a-f]{32}-[0-9]+$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What a sweep needs to know of objects that may just have appeared; a payload.

    Attributes:
        known: hashes of the addresses that the run before knew long enough ago; None where this run did, so that
            nothing is kept.
        opaque: whether an ETag of any other form may be that of an object uploaded in parts.
    """

    known: PartInfo | None = None
    opaque: bool = False

    def keeps(self, folder: RunFolder, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Tell of each candidate whether a request may be about to stage it.

        Args:
            folder: the run folder.
            rows: candidates, with `etag` and `hash`.

        Raises:
            FormatError: the file of hashes is not as it was written.
        """
        if self.known is None:
            return np.zeros(rows.num_rows, bool)
        etags = pc.fill_null(rows["etag"], "")
        plain = pc.match_substring_regex(etags, _PLAIN)
        in_parts = pc.invert(plain) if self.opaque else pc.match_substring_regex(etags, _IN_PARTS)
        held: npt.NDArray[np.bool_] = in_parts.to_numpy()
        if held.any():  # few objects are uploaded in parts, so the file is seldom needed
            held = held & ~contains(read_hashes(folder, self.known), rows["hash"].to_numpy())
        return held


def look_at_settling(run: Run, candidates: StepSummary, where: str) -> Settling:
    """Find out which objects have been there for long enough. Comes right before a re-check.

    Args:
        run: this run.
        candidates: of this run; all of them were in the store before they were complete.
        where: folder for the file, relative to the run folder.
    """
    now = run.store_now()
    if _is_settled(run, candidates, now):
        return Settling()
    before = _run_before(run)
    hashes = NONE
    if before is not None and _is_settled(run, before[1], now):
        base = before[0]
        parts = base.folder.read_parts(list(base.state.carry), ["address"])
        hashes = unite([hash64(rows["address"].combine_chunks()) for rows in parts])
    known = write_hashes(run.folder, f"{where}/known.u64", hashes)
    return Settling(known=known, opaque=canonical_scheme(run.plan.namespace.partition("://")[0]) == "s3")


def _is_settled(run: Run, candidates: StepSummary, now: datetime) -> bool:
    """Whether candidates were complete long enough ago; the clock that wrote this down may differ from the store's."""
    safety = run.plan.config.safety
    if not safety.multipart_settle_seconds:
        return True
    seconds = safety.multipart_settle_seconds + safety.clock_skew_seconds_max
    return now - candidates.finished_at >= timedelta(seconds=seconds)


def _run_before(run: Run) -> tuple[Base, StepSummary] | None:
    """What the run before left, and its candidates; None when there is none or it cannot be read."""
    if run.plan.state is None:
        return None
    try:
        base = open_base(run, run.plan.state)
        candidates = base.folder.read_summary(SubtractOutput.STEP)
    except FormatError as error:
        log.info("run %s: what the run before knew cannot be read: %s", run.plan.run_id, error)
        return None
    return None if candidates is None else (base, candidates)
