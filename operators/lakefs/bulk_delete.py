"""The step that deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.environment import tasks_environment
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.lakefs.kv_spark import LakeFSKVSparkOperator
from airflow_dredge.operators.lineage import of_step
from airflow_dredge.operators.metrics import report_metrics
from dredge.gc import steps
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSBulkDeleteOperator(LakeFSKVSparkOperator):
    """Check the candidates of a run again, then delete them.

    The only step that deletes. The check reads staging and the commits made since the mark once more, and
    the deletion stops when a branch head turns up that the mark did not know. Killed or failed, it goes on
    from its ledger. A dry run only says what would go, and starts no Spark.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, for the check: the same as the plan step's
        (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "bulk_delete"

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Delete the candidates, or in a dry run say how many would go."""
        run = self.open_run(self.run_uri)
        if run.plan.dry_run:
            self.log.info("Dry run: nothing is deleted")
            with tasks_environment(run):
                summary = steps.bulk_delete(run, LocalRunner())
            self.lineage = of_step(run.plan.namespace, run.plan.repository, run.plan.run_id, summary)
            return report_metrics(self.step, summary, run.plan.repository)
        return super().execute(context)
