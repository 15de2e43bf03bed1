"""What earlier runs saw staged and no branch shows now: a commit under way may be about to bring it back.

The server's list of what is staged has the newest entry of each path only (L23). A commit first seals the token and
then reads it. When the path is written anew meanwhile, the sealed entry is in no answer until the commit ends:

    p → A is staged  →  a run sees it  →  a commit seals it  →  p → B is staged  →  this run: A is in no answer
                                                  └──────────── the commit goes on ───────────▶ its branch has A

So what any run's mark saw staged is held until a mark that is older than the longest commit did not show it. Marks of
dry runs and of runs that failed later on count as well, and each try of a mark. The records of the key-value store
have every sealed token, so nothing is held where they were read. A mark that is there and cannot be read stops the run:
what it saw may be just what is about to come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from dredge.errors import FormatError, RefusedError
from dredge.gc.history import earlier_runs
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets.live import LocatedSet
from dredge.sets.sharded import ShardedSet


def staged_before(run: Run, staged: MarkUncommittedOutput) -> tuple[LocatedSet, ...]:
    """Find the hashes of what earlier marks saw staged, as far as it may have left staging within the time of a commit.

    Args:
        run: this run.
        staged: its mark.

    Returns:
        Sets in the folders of these runs; nothing of them is read here.

    Raises:
        RefusedError: a mark cannot be read.
    """
    if not run.plan.config.safety.commit_hours_max:
        return ()
    found = {part.sha256: _located(run.folder, part) for part in staged.hashes_of_earlier_tries}
    for folder, earlier in earlier_marks(run):
        for part in [*earlier.hashes, *earlier.hashes_of_earlier_tries]:
            # Pages that did not change since the run before are read once.
            found.setdefault(part.sha256, _located(folder, part))
    return tuple(found.values())


def _located(folder: RunFolder, part: PartInfo) -> LocatedSet:
    return LocatedSet(folder.uri, ShardedSet(0, {0: part}))


def earlier_marks(run: Run) -> Iterator[tuple[RunFolder, MarkUncommittedOutput]]:
    """Give the marks of earlier runs that tell what may have left staging within the time of a commit, newest first.

    Args:
        run: this run; later ones need none that it does not need.

    Raises:
        RefusedError: one cannot be read.
    """
    safety = run.plan.config.safety
    if not safety.commit_hours_max:
        return
    # Another machine's clock may have told when the earlier mark was complete.
    longest = timedelta(hours=safety.commit_hours_max, seconds=safety.clock_skew_seconds_max)
    for folder, plan in earlier_runs(run):
        staged = _mark_of(run, folder)
        if staged is None:
            continue
        yield folder, staged
        # What an older mark showed and this one did not left staging before this one was complete. One of which nobody
        # can tell whose it is says nothing of what is older.
        if plan is not None and staged.summary.finished_at <= run.plan.created_at - longest:
            return


def _mark_of(run: Run, folder: RunFolder) -> MarkUncommittedOutput | None:
    """The mark of a run, also when another try of it was begun since; None when it came to none."""
    step = MarkUncommittedOutput.STEP
    try:
        summary = folder.last_summary(step)
    except FormatError as error:
        raise RefusedError(unreadable_mark(str(error), run.plan.config.safety.commit_hours_max)) from None
    return None if summary is None else MarkUncommittedOutput.of(summary)


def unreadable_mark(why: str, commit_hours_max: float) -> str:
    """Say what it means that an earlier mark cannot be read, and what to do.

    Args:
        why: what is wrong with it.
        commit_hours_max: longest commit.
    """
    return (
        f"what an earlier run saw staged cannot be read: {why}. Nothing was deleted: some of it may have left staging"
        " with a commit that is under way and about to bring it. This goes by: each run notes what is staged, also one"
        f" that stops here, and once such a note is {commit_hours_max:g} hours old, runs go on. To go on now, name"
        " lakeFS's key-value store (kv_conn_id): its records have what such a commit is about to bring."
    )
