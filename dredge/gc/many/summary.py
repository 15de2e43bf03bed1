"""What became of each repository's run, by its report."""

from __future__ import annotations

from dredge.errors import DredgeError
from dredge.gc import steps
from dredge.runs.many import Outcome, lost, reported
from dredge.storage import StorageOptions


def outcome_of(
    repository: str, run_uri: str, why: str = "", options: StorageOptions | None = None
) -> Outcome:
    """Tell what became of a repository's run, by its report.

    Args:
        repository: name in lakeFS.
        run_uri: folder of the run; "" when it came to no plan.
        why: what is known to have gone wrong; for a run without a report.
        options: how stores are reached; None reads the environment.
    """
    if not run_uri:
        return lost(repository, why)
    try:
        report = steps.read_report(steps.Run.open(run_uri, options))
    except DredgeError as error:
        return lost(repository, why or str(error), run_uri)
    counts = report["counts"]
    found, deleted = (
        (counts.get(f"{what}_objects", 0), counts.get(f"{what}_bytes", 0))
        for what in ("deletable", "deleted")
    )
    return reported(repository, run_uri, report, found, deleted)
