"""The step that writes what became of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.approve import what_went_wrong
from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.events import leave_event
from airflow_dredge.operators.failures import first_failure, reported
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lineage import Lineage
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.metrics import report_metrics, report_run
from dredge.errors import RefusedError
from dredge.gc import steps

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSSaveReportOperator(TellsLineage, LakeFSOperator):
    """Write the report of a run, also of one that failed, and give its lease back; then fail if the run did
    not complete. A run that a person rejected has ended well.

    It decides about the state of the DAG run, so make it a teardown (``as_teardown(on_failure_fail_dagrun=True)``): it
    runs whatever happened, also when a person marked the run as failed. Its outlet events carry the figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param repository: its name, for the event of a run that came to no plan (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "save_report"
    template_fields: Sequence[str] = ("run_uri", "repository")
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, run_uri: str, repository: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.repository = repository

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when a step is missing."""
        if not self.run_uri:
            why = first_failure(self, context)
            leave_event(context, "failed", self.repository, text=why)
            raise RefusedError(
                f"the run came to no plan, so there is nothing to report and nothing was deleted. {why}"
            )
        run = self.open_run(self.run_uri)
        with tasks_environment(run):
            summary = steps.save_report(run)
        # When only failed tasks were cleared, the last task has run before and will not run again, but the
        # tasks that went on took the right back.
        steps.release_lease(run)
        report, outcome = str(summary.details["page"]), summary.details["outcome"]
        context["ti"].xcom_push(REPORT, report)
        self.lineage = Lineage(
            run.plan.namespace, run.plan.repository, run.plan.run_id, dict(summary.counts), outcome, report
        )
        figures = report_metrics(self.step, summary, run.plan.repository)
        report_run(summary, run.plan.repository)
        problem = what_went_wrong(outcome, lambda: steps.read_report(run))
        told = {"run": run.plan.run_id, "counts": figures["counts"], "report": report, "text": problem}
        leave_event(context, outcome, run.plan.repository, **told)
        if problem:
            raise RefusedError(f"run {run.plan.run_id} is {outcome}. {problem} The report: {report}")
        facts = {"repository": run.plan.repository, "run_id": run.plan.run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: report, **figures["counts"]}
        return {**figures, **facts, REPORT: report}
