"""Judge deleted addresses that are live again: does an expired commit explain it that the deleting run knew?

A branch or a tag on an expired commit, a revert and a rule that was made longer bring back entries of expired commits:
lakeFS allows all of them at any time, and the deletion was right when it was made. The deleting run wrote down whether
an expired commit named an object (its reason is `expired`). It reads the ranges of the newest expired commits only, so
for any other reason all commits that it knew as expired are read now. Range files that no commit leads to explain it as
well, where rules were taken away: then every one counts as live.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.check_again.find import Hits
from dredge.gc.index.ranges import Metaranges, read_files
from dredge.gc.index.store import Lookup
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import EXPIRED
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import unite


def explained(run: Run, hits: Hits) -> npt.NDArray[np.bool_]:
    """Tell of each row whether an expired commit that the deleting run knew named its address.

    Args:
        run: this run.
        hits: of one run that deleted.

    Raises:
        UnavailableError: the store does not answer.
    """
    rows = hits.rows
    by_reason = pc.fill_null(pc.equal(rows["reason"], EXPIRED), False)
    found: npt.NDArray[np.bool_] = by_reason.to_numpy(zero_copy_only=False).copy()
    if found.all() or hits.swept is None:
        return found
    others = unite([rows["hash"].to_numpy()[~found]])
    addresses = _named_by_expired(run, hits.swept.folder, others)
    named: npt.NDArray[np.bool_] = pc.is_in(rows["address"], addresses).to_numpy(zero_copy_only=False)
    found |= named | hits.unclaimed
    return found


def _named_by_expired(run: Run, folder: RunFolder, wanted: npt.NDArray[np.uint64]) -> pa.StringArray:
    """The addresses with some hashes that commits named which a run knew as expired. What cannot be read explains
    nothing."""
    nothing = pa.nulls(0, pa.string())
    try:
        summary = folder.read_summary(ListCommittedOutput.STEP)
        if summary is None:
            return nothing
        committed = ListCommittedOutput.of(summary)
        history = folder.read_part(committed.history, ["commit_id", "metarange_id"])
        # No ref may have led to a commit that the run knew, such as that of a deleted branch.
        carried = folder.read_part(committed.carried_commits, ["commit_id", "metarange_id"])
        active = folder.read_part(committed.commits, ["commit_id"])["commit_id"]
    except UnavailableError:
        raise
    except DredgeError:
        return nothing
    known = pa.concat_tables([history, carried.cast(history.schema)])
    expired = known.filter(pc.invert(pc.is_in(known["commit_id"], active.combine_chunks())))
    metaranges = _read(run, sorted({item for item in expired["metarange_id"].to_pylist() if item}))
    lookup = Lookup(run)
    return lookup.addresses_in(lookup.ranges_with(metaranges.ranges, wanted), wanted)


def _read(run: Run, metaranges: list[str]) -> Metaranges:
    """Read metaranges, all at once, or one by one when some cannot be read."""
    try:
        return read_files(run.reader, metaranges)
    except UnavailableError:
        raise
    except DredgeError:
        found = Metaranges()
    for item in metaranges:
        try:
            found.add(read_files(run.reader, [item]))
        except UnavailableError:
            raise
        except DredgeError:
            continue
    return found
