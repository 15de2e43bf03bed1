"""The step that writes what became of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from dredge.errors import RefusedError
from dredge.gc import steps
from operators.base import LakeFSRunOperator, open_run, told

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

REPORT = "report_uri"


class ReportLink(BaseOperatorLink):
    """Link from the task to the run's report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's address, empty before there is one."""
        return XCom.get_value(ti_key=ti_key, key=REPORT) or ""


class LakeFSSaveReportOperator(LakeFSRunOperator):
    """Write the report of a run, also of one that failed; then fail if the run did not complete.

    A run with a failed step is never a success, so give this task the trigger rule ``all_done``. Its outlet
    events carry the figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    operator_extra_links = (ReportLink(),)

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when a step is missing."""
        run = open_run(self.run_uri, self.aws_conn_id, self.hook)
        summary = steps.save_report(run)
        report = f"{run.plan.run_uri}/report.html"
        context["ti"].xcom_push(REPORT, report)
        figures = told(summary, run.plan.repository)
        missing = [step for step in STEPS if run.folder.read_summary(step) is None]
        if missing:
            failure = run.folder.read_failure(missing[0]) or {}
            raise RefusedError(
                f"run {run.plan.run_id} did not complete: {missing[0]} failed"
                f" ({failure.get('message', 'see its log')}). Report: {report}"
            )
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {
                "repository": run.plan.repository,
                "run_id": run.plan.run_id,
                "dry_run": run.plan.dry_run,
                "report": report,
                **figures["counts"],
            }
        return {**figures, REPORT: report}


STEPS = (
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "bulk_delete",
    "verify",
)
