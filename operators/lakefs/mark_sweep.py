"""Tasks of a lakeFS collection between plan and report, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.gates import ApproveOperator
from airflow_dredge.operators.lakefs.base import (
    LakeFSKVRunOperator,
    LakeFSKVSparkOperator,
    LakeFSOperator,
    LakeFSRunOperator,
    LakeFSSparkOperator,
)
from dredge.gc import steps
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner

if TYPE_CHECKING:
    from dredge.gc.steps import Run


class LakeFSSliceListingOperator(LakeFSSparkOperator):
    """List the objects below ``data/`` of a repository's namespace.

    The listing is complete before the next task starts, so an object uploaded later is never a candidate.
    """

    step = "slice_listing"


class LakeFSMarkUncommittedOperator(LakeFSKVRunOperator):
    """Read the uncommitted addresses of a repository, from the server and from its key-value store if configured.

    The task runs before the commits are read: an object moves from staging into a commit, never back.
    """

    step = "mark_uncommitted"

    def work(self, run: steps.Run) -> StepSummary:
        """Read staging."""
        return steps.mark_uncommitted(run, alone=True)


class LakeFSListCommittedOperator(LakeFSKVSparkOperator):
    """Read the addresses in active commits. Ranges from earlier runs come from the committed index."""

    step = "list_committed"

    @property
    def rows_max(self) -> int:
        """Rows of ranges for Spark: they are known only in the step, and each costs a tenth of a listed object."""
        return 10 * int(self.spark_rows_min)


class LakeFSSubtractLiveOperator(LakeFSSparkOperator):
    """Write the candidates: listed objects without a reference, each with a reason."""

    step = "subtract"


class LakeFSCheckLimitsOperator(LakeFSRunOperator):
    """Run the safety checks on the candidates. The task fails if a limit is exceeded; nothing is deleted."""

    step = "check_limits"

    def work(self, run: steps.Run) -> StepSummary:
        """Run the checks."""
        return steps.check_limits(run)


class LakeFSApproveOperator(LakeFSOperator, ApproveOperator):
    """Wait for an approval if the run needs one; see :class:`ApproveOperator`.

    Commands: ``dredge gc approve`` and ``dredge gc reject``.
    """

    asks = "Delete the garbage of a lakeFS repository?"

    @property
    def steps(self) -> Any:
        """The steps of a lakeFS collection."""
        return steps

    def open(self) -> Run:
        """Open the run."""
        return self.open_run(self.run_uri)


class LakeFSBulkDeleteOperator(LakeFSKVSparkOperator):
    """Check the candidates again, then delete them. A dry run only counts them.

    The check reads staging and the commits since the mark, and refuses branch heads that the mark has not
    seen. After a failure the task continues from its ledger.
    """

    step = "bulk_delete"

    def is_local(self, run: steps.Run) -> bool:
        """Return whether the step runs in the worker: a dry run, or few candidates."""
        return run.plan.dry_run or super().is_local(run)


class LakeFSVerifySweepOperator(LakeFSRunOperator):
    """Check that deleted objects are absent and live ones present. A dry run skips the check."""

    step = "verify"

    def work(self, run: steps.Run) -> StepSummary:
        """Check."""
        return steps.verify(run)


class LakeFSPurgeOldOperator(LakeFSKVRunOperator):
    """Permanently delete old copies and versions of deleted objects if the run has ``purge_days``.

    The run's mark proves that the objects are not live. A dry run only counts them.
    """

    step = "purge"

    def work(self, run: steps.Run) -> StepSummary | None:
        """Purge."""
        if run.plan.config.purge_days is None:
            self.log.info("purge_days is empty: nothing is purged")
            return None
        return steps.purge_old(run, LocalRunner())
