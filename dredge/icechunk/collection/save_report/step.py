"""Save report: what became of the run, whatever it is.

    report.json     for programs; everything in one JSON object
    report.html     the same as a page

A report is written anew whenever it is asked for, also after a failure. One that was begun later knows more, so an
earlier one gives way to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report.output import PAGE, REPORT, SaveReportOutput
from dredge.icechunk.collection.save_report.report import build_report
from dredge.runs.report import render_html
from dredge.runs.summary import StepSummary
from dredge.runs.tries import StepTry


def save_report(run: Run) -> StepSummary:
    """Write the report of a run.

    Raises:
        OvertakenError: somebody began to write it later, who knows more; theirs stays.
    """
    started = run.clock()
    attempt = StepTry.claim(run.folder.writer, SaveReportOutput.STEP)
    with run.folder.writing(attempt):
        report = build_report(run)
        page = render_html(report).encode()
        run.folder.publish_json(REPORT, report)
        attempt.replace(PAGE, page)
        summary = StepSummary(
            step=SaveReportOutput.STEP,
            run_id=run.plan.run_id,
            status="success",
            started_at=started,
            finished_at=run.clock(),
            counts=_figures(report),
            details={"outcome": report["outcome"], "page": f"{run.folder.uri}/{PAGE}"},
            try_number=attempt.number,
        )
        run.folder.write_summary(summary)
    return summary


def _figures(report: Mapping[str, Any]) -> dict[str, int]:
    return {
        f"{what}_{unit}": report[what][unit]
        for what in ("candidates", "deleted", "failed")
        for unit in ("objects", "bytes")
    }
