"""The step that tells of all repositories in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import FAILURE, first_failure, reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lakefs.choose_repositories import LEFT_OUT, SUMMARY_ROOT
from airflow_dredge.operators.links import REPORT, ReportLink
from dredge.errors import RefusedError
from dredge.gc.many import Outcome, left_out, outcome_of, save_summary, summarize, table_lines
from dredge.runs.clock import utc_now

if TYPE_CHECKING:
    from airflow.sdk import Context


#: Tasks of a run that say why it failed before it had a report. The last one does not run where the first failed.
_TELLING = ("save_report", "plan", "acquire_lease")


class LakeFSSaveSummaryOperator(LakeFSOperator):
    """Write one page about the runs of all repositories, those that failed and those that had none included.

    Give this task the trigger rule ``all_done``. Its outlet events carry the figures.

    :param runs: what the task ``choose_repositories`` returned (templated)
    :param collect_dag_id: the DAG that the runs are of
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("runs",)
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, runs: Any, collect_dag_id: str = "lakefs_gc", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.collect_dag_id = collect_dag_id

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the page, and return the figures."""
        if self.runs is None:
            raise RefusedError(
                f"no repository was chosen, so nothing was done. {first_failure(self, context)}"
            )
        ti: Any = context["ti"]
        outcomes = [self._outcome(ti, run) for run in self.runs]
        skipped: Mapping[str, str] = ti.xcom_pull(task_ids="choose_repositories", key=LEFT_OUT) or {}
        outcomes += [left_out(name, why) for name, why in skipped.items()]
        summary = summarize(outcomes, utc_now())
        for line in table_lines(summary):
            self.log.info("%s", line)
        figures = {**summary["counts"], REPORT: self._save(context, summary)}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = figures
        return figures

    def _outcome(self, ti: Any, run: Mapping[str, Any]) -> Outcome:
        def pulled(task_id: str, **key: str) -> Any:
            where = {"dag_id": self.collect_dag_id, "run_id": run["trigger_run_id"]}
            return ti.xcom_pull(task_ids=task_id, map_indexes=None, **where, **key)

        plan = pulled("plan") or {}
        failures = (pulled(task_id, key=FAILURE) for task_id in _TELLING)
        why = next(filter(None, failures), "")
        repository = run["conf"]["repository"]
        return outcome_of(repository, plan.get("run_uri", ""), why, storage_options(self.aws_conn_id))

    def _save(self, context: Context, summary: Mapping[str, Any]) -> str:
        """Write the page where the first task said; "" when no repository was asked for."""
        ti: Any = context["ti"]
        root = ti.xcom_pull(task_ids="choose_repositories", key=SUMMARY_ROOT)
        if not root:
            return ""
        name = "".join(letter if letter.isalnum() else "-" for letter in context["run_id"])
        page = save_summary(summary, root, f"{self.dag_id}-{name}", storage_options(self.aws_conn_id))
        ti.xcom_push(REPORT, page)
        return page
