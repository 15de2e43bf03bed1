"""Tasks of a lakeFS collection between plan and report, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.gates import ApproveOperator
from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.hooks.storage import tasks_environment
from airflow_dredge.operators.lakefs.base import (
    LakeFSKVSparkOperator,
    LakeFSOperator,
    LakeFSRunOperator,
    LakeFSSparkOperator,
)
from airflow_dredge.operators.reporting import of_step, report_metrics
from dredge.gc import steps
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.gc.steps import Run


class LakeFSSliceListingOperator(LakeFSSparkOperator):
    """List every object below ``data/`` of a repository's namespace, slices side by side.

    The listing is complete before anything else is read: an object that is uploaded later is never a
    candidate.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "slice_listing"


class LakeFSMarkUncommittedOperator(LakeFSRunOperator):
    """Read every page of a repository's uncommitted addresses.

    Runs after the listing and before commits are read: an object moves from staging into a commit, never
    back to nothing. With a connection of lakeFS's key-value store its staging records are read as well,
    which have what the server leaves out.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param kv_conn_id: connection of the key-value store, the same as the plan step's (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "mark_uncommitted"
    template_fields: Sequence[str] = (*LakeFSRunOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def variables(self) -> dict[str, str]:
        """Return what opens the key-value store."""
        return kv_env(self.kv_conn_id)

    def work(self, run: steps.Run) -> StepSummary:
        """Read staging to the end."""
        return steps.mark_uncommitted(run)


class LakeFSListCommittedOperator(LakeFSKVSparkOperator):
    """Read the addresses that active commits of a repository name.

    Ranges that an earlier run has read are taken from the committed index.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, the same as the plan step's: commits are then read from
        it (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "list_committed"


class LakeFSSubtractLiveOperator(LakeFSSparkOperator):
    """Write the listed objects that nothing live names, each with a reason.

    Deletes nothing.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "subtract"


class LakeFSCheckLimitsOperator(LakeFSRunOperator):
    """Ask every guard whether the candidates may be deleted.

    A limit that is exceeded stops the run: the task fails at once, and nothing is deleted.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "check_limits"

    def work(self, run: steps.Run) -> StepSummary:
        """Ask the guards."""
        return steps.check_limits(run)


class LakeFSApproveOperator(LakeFSOperator, ApproveOperator):
    """Ask a person whether a run may delete, where its settings and its limits want that; else go on at once.

    ``ApproveOperator`` says how it is answered; commands are ``dredge gc approve`` and ``dredge gc reject``.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    asks = "Delete the garbage of a lakeFS repository?"

    @property
    def steps(self) -> Any:
        """The steps of a collection of lakeFS."""
        return steps

    def open(self) -> Run:
        """Open the run."""
        return self.open_run(self.run_uri)


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


class LakeFSVerifySweepOperator(LakeFSRunOperator):
    """Look whether what was deleted is gone and what is live is there.

    In a dry run there is nothing to look at.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "verify"

    def work(self, run: steps.Run) -> StepSummary:
        """Look again."""
        return steps.verify(run)


class LakeFSPurgeOldOperator(LakeFSRunOperator):
    """Delete for good what earlier runs could still bring back, where the run's ``purge_days`` says so.

    Only what the mark of the same run shows as not live goes. A dry run only counts it.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param kv_conn_id: connection of the key-value store, the same as the plan step's (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "purge"
    template_fields: Sequence[str] = (*LakeFSRunOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def variables(self) -> dict[str, str]:
        """Return what opens the key-value store."""
        return kv_env(self.kv_conn_id)

    def work(self, run: steps.Run) -> StepSummary:
        """Purge."""
        return steps.purge_old(run, LocalRunner())

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Purge, and return the figures; nothing where the run has no ``purge_days``."""
        if self.open_run(self.run_uri).plan.config.purge_days is None:
            self.log.info("purge_days is empty: nothing is purged")
            return {}
        found: dict[str, Any] = super().execute(context)
        return found
