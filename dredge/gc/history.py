"""Earlier runs of the same repository, and runs of other collectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dredge.errors import DredgeError, FormatError
from dredge.gc.plan import PLAN, RUNS, Plan
from dredge.gc.run import Run
from dredge.graveler.xid import descending_time
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.output import StepOutput
from dredge.runs.summary import StepSummary
from dredge.storage import ObjectReader, StorageOptions, open_writer

_LOOK_BACK = 300
_OLDER_STEPS = {"mark_uncommitted": "staged"}
"""What steps were called in runs of earlier versions whose results are still read."""


def run_ids(reader: ObjectReader) -> list[str]:
    """Ids of the runs below a run root, newest first.

    Args:
        reader: on the run root.
    """
    names = [folder.rstrip("/") for folder in reader.list_level("").folders]
    return sorted(name for name in names if _is_run_id(name))


def previous[O: StepOutput](run: Run, output: type[O]) -> O | None:
    """What the newest earlier run of this repository that completed a step got from it; None when there is none.

    Args:
        run: this run.
        output: of the step.
    """
    return next((found for _, found in earlier_results(run, output)), None)


def earlier_results[O: StepOutput](run: Run, output: type[O]) -> Iterator[tuple[RunFolder, O]]:
    """What earlier runs of this repository got from a step, newest first, dry and failed ones too.

    Args:
        run: this run.
        output: of the step.
    """
    root = run.plan.run_uri.rpartition("/")[0]
    for folder, plan in _earlier(root, run.plan, run.options):
        if plan.repository != run.plan.repository or plan.namespace != run.plan.namespace:
            continue
        try:
            summary = folder.read_summary(output.STEP) or _of_older(folder, output.STEP)
        except DredgeError:
            continue
        if summary is not None:
            yield folder, output.of(summary)


def _of_older(folder: RunFolder, step: str) -> StepSummary | None:
    """The result of a step of an earlier version, as if it had today's name."""
    name = _OLDER_STEPS.get(step)
    summary = None if name is None else folder.read_summary(name)
    if name is None or summary is None:
        return None
    parts = [replace(part, name=f"{step}{part.name.removeprefix(name)}") for part in summary.parts]
    return replace(summary, step=step, parts=tuple(parts))


def _earlier(root: str, ours: Plan, options: StorageOptions | None) -> Iterator[tuple[RunFolder, Plan]]:
    reader = open_writer(root, options)
    older = [run_id for run_id in run_ids(reader) if run_id > ours.run_id]
    for run_id in older[:_LOOK_BACK]:
        try:
            plan = Plan.from_json(read_json(reader, f"{run_id}/{PLAN}"))
        except DredgeError:
            continue  # another collector's run, or one of another version
        yield RunFolder(open_writer(f"{root}/{run_id}", options), run_id), plan


def foreign_runs(run: Run) -> list[str]:
    """Ids of the runs of lakeFS's own collector that ended after this run was planned.

    They lie beside the runs of this collector, but have no plan.
    """
    found = []
    for folder in run.reader.list_level(f"{RUNS}/").folders:
        run_id = folder.rstrip("/").rpartition("/")[2]
        if not _is_run_id(run_id) or descending_time(run_id) < run.plan.created_at.replace(microsecond=0):
            continue
        if f"{folder}{PLAN}" not in {info.key for info in run.reader.list_level(folder).objects}:
            found.append(run_id)
    return sorted(found)


def _is_run_id(name: str) -> bool:
    try:
        descending_time(name)
    except FormatError:
        return False
    return True
