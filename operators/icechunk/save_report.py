"""The step that writes what became of the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_dredge.operators.approve import what_went_wrong
from airflow_dredge.operators.events import leave_event
from airflow_dredge.operators.failures import first_failure, reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.icechunk.base import IcechunkOperator
from airflow_dredge.operators.lineage import Lineage
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.metrics import report_metrics, report_run
from dredge.errors import RefusedError

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkSaveReportOperator(TellsLineage, IcechunkOperator):
    """Write the report of a collection, also of one that failed, and give its lease back; then fail if it did not
    complete. A run that a person rejected has ended well.

    It decides about the state of the DAG run, so make it a teardown (``as_teardown(on_failure_fail_dagrun=True)``): it
    runs whatever happened, also when a person marked the run as failed.

    :param storage: URI of the repository (templated)
    :param plan: what the plan task returned (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "plan")
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when the collection did not end well."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import Run, read_report, release_lease, save_report

        if not isinstance(self.plan, Mapping):
            why = first_failure(self, context)
            leave_event(context, "failed", self.storage, text=why)
            raise RefusedError(f"there was no collection, because an earlier task failed. {why}")
        if not self.plan["run_uri"]:
            raise AirflowSkipException("this run has no collection of its own to report")
        run = Run.open(self.plan["run_uri"], storage_options(self.aws_conn_id))
        summary = save_report(run)
        # When only failed tasks were cleared, the last task has run before and will not run again, but the tasks that
        # went on took the right back.
        release_lease(run)
        outcome, page = summary.details["outcome"], str(summary.details["page"])
        context["ti"].xcom_push(REPORT, page)
        report_run(summary, run.plan.uri)
        figures = dict(summary.counts)
        self.lineage = Lineage(run.plan.uri, run.plan.uri, run.plan.run_id, figures, outcome, page)
        problem = what_went_wrong(outcome, lambda: read_report(run))
        run_id = run.plan.run_id
        leave_event(context, outcome, run.plan.uri, run=run_id, counts=figures, report=page, text=problem)
        if problem:
            raise RefusedError(f"run {run.plan.run_id} is {outcome}. {problem} The report: {page}")
        facts = {"storage": run.plan.uri, "run_id": run.plan.run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: page, **summary.counts}
        return {**report_metrics("icechunk_report", summary, run.plan.uri), **facts, REPORT: page}
