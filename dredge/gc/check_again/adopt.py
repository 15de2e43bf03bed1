"""Records for runs that deleted before records were kept, or whose record was lost: made from what is left of their
folders."""

from __future__ import annotations

from dredge.errors import FormatError
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.history import earlier_runs
from dredge.gc.run import Plan, Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import Hashes, read_hashes, unite
from dredge.undo.deletions import Deletion, Deletions, write_deletion, write_hashes


def adopt_deletions(run: Run, known: Deletions) -> tuple[list[str], bool]:
    """Write a record for each earlier run of this repository that deleted and has none.

    Args:
        run: this run.
        known: the records that are there.

    Returns:
        A sentence for each run that may have deleted and cannot be read, and whether a record was written.
    """
    have = {item.run_id for item in known.found} | known.unread.keys()
    unread, has_adopted = list[str](), False
    for folder, plan in earlier_runs(run):
        if folder.run_id in have or (plan is not None and plan.dry_run) or not _has_ledger(folder):
            continue
        try:
            if plan is None:
                raise FormatError("its plan cannot be read")
            hashes = _deletable(folder)
        except FormatError as error:
            unread.append(f"run {folder.run_id} ({folder.uri}): {error}")
            continue
        if len(hashes):
            _adopt(run, folder, plan, hashes)
            has_adopted = True
    return unread, has_adopted


def _has_ledger(folder: RunFolder) -> bool:
    return next(iter(folder.writer.list(f"{ledger.STEP}/_raw/")), None) is not None


def _deletable(folder: RunFolder) -> Hashes:
    found = folder.read_summary(SubtractOutput.STEP)
    guards = folder.read_summary(CheckLimitsOutput.STEP)
    if found is None or guards is None:
        raise FormatError(f"the candidates of {folder.uri} are gone")
    parts = CheckLimitsOutput.of(guards).may_go(SubtractOutput.of(found))
    return unite([read_hashes(folder, part) for part in parts])


def _adopt(run: Run, folder: RunFolder, plan: Plan, hashes: Hashes) -> None:
    written = write_hashes(run.state, f"{plan.run_id}-{run.folder.label}", hashes)
    write_deletion(
        run.state,
        Deletion(
            run_id=plan.run_id,
            run_uri=folder.uri,
            at=plan.created_at,
            way=plan.undo.way,
            hashes=written,
        ),
    )
