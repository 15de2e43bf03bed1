"""What earlier runs saw staged and no branch shows now: a commit under way may be about to bring it back.

The server's list of what is staged has the newest entry of each path only (L23). A commit first seals the token and
then reads it. When the path is written anew meanwhile, the sealed entry is in no answer until the commit ends:

    p → A is staged  →  a run sees it  →  a commit seals it  →  p → B is staged  →  this run: A is in no answer
                                                  └──────────── the commit goes on ───────────▶ its branch has A

So what any run's mark saw staged is held until a mark that is older than the longest commit did not show it. Marks of
dry runs and of runs that failed later on count as well. The records of the key-value store have every sealed token,
so nothing is held where they were read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta

from dredge.errors import FormatError
from dredge.gc.history import earlier_results
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.state.base import open_base
from dredge.runs.folder import RunFolder
from dredge.sets.live import LocatedSet
from dredge.sets.sharded import ShardedSet

log = logging.getLogger("dredge")


def staged_before(run: Run) -> tuple[LocatedSet, ...]:
    """Find the hashes of what earlier runs saw staged, as far as it may have left staging within the time of a commit.

    Args:
        run: this run.

    Returns:
        Sets in the folders of these runs; nothing of them is read here.
    """
    found: dict[str, LocatedSet] = {}
    for folder, staged in earlier_marks(run):
        for part in staged.hashes:
            # Pages that did not change since the run before are read once.
            found.setdefault(part.sha256, LocatedSet(folder.uri, ShardedSet(0, {0: part})))
    return tuple(found.values())


def earlier_marks(run: Run) -> Iterator[tuple[RunFolder, MarkUncommittedOutput]]:
    """Give the marks of earlier runs that tell what may have left staging within the time of a commit, newest first.

    Args:
        run: this run; later ones need none that it does not need.
    """
    safety = run.plan.config.safety
    if not safety.commit_hours_max:
        return
    # Another machine's clock may have told when the earlier mark was complete.
    longest = timedelta(hours=safety.commit_hours_max, seconds=safety.clock_skew_seconds_max)
    for folder, staged in _marks(run):
        yield folder, staged
        # What an older mark showed and this one did not left staging before this one was complete.
        if staged.summary.finished_at <= run.plan.created_at - longest:
            return


def _marks(run: Run) -> Iterator[tuple[RunFolder, MarkUncommittedOutput]]:
    """Marks of earlier runs, newest first; at last that of the run before, where it lies in another run root."""
    root = run.plan.run_uri.rpartition("/")[0]
    yield from earlier_results(run, MarkUncommittedOutput)
    if run.plan.state is None:
        return
    try:
        before = open_base(run, run.plan.state).folder
        summary = before.read_summary(MarkUncommittedOutput.STEP)
    except FormatError as error:
        log.info("run %s: what the run before saw staged cannot be read: %s", run.plan.run_id, error)
        return
    if summary is not None and before.uri.rpartition("/")[0] != root:
        yield before, MarkUncommittedOutput.of(summary)
