"""Garbage collection of one lakeFS repository.

Deletes objects that no branch's staging and no active commit references, once they are older than the minimum
age. A dry run (the default) deletes nothing; its report says what would go and why the rest stays. For a
schedule, make a DAG file of your own with `gc_dag("gc_lake", "@daily", repository="lake", dry_run=False)`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, chain

from operators.bulk_delete import LakeFSBulkDeleteOperator
from operators.check_limits import LakeFSCheckLimitsOperator
from operators.lease import LakeFSAcquireLeaseOperator, LakeFSReleaseLeaseOperator
from operators.list_committed import LakeFSListCommittedOperator
from operators.mark_uncommitted import LakeFSMarkUncommittedOperator
from operators.params import PLANNED, RUN_DEFAULTS, gc_params
from operators.plan import LakeFSPlanRunOperator
from operators.save_report import LakeFSSaveReportOperator
from operators.slice_listing import LakeFSSliceListingOperator
from operators.subtract import LakeFSSubtractLiveOperator
from operators.verify import LakeFSVerifySweepOperator


def gc_dag(dag_id: str, schedule: str | None = None, **defaults: Any) -> DAG:
    """Make the DAG; `defaults` are values of its Params."""
    with DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        allowed_run_types=["manual", "scheduled", "operator_triggered", "asset_triggered"],  # no backfills
        default_args=RUN_DEFAULTS,
        params=gc_params(**defaults),
        tags=["dredge", "lakefs", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        # Runs on a schedule follow each other strictly: the next one waits for this one's last task, which
        # hangs directly on the first. Any two runs on one repository are kept apart by the lease.
        serial = {"depends_on_past": schedule is not None, "wait_for_downstream": schedule is not None}
        lease = LakeFSAcquireLeaseOperator(task_id="acquire_lease", **serial)
        release = LakeFSReleaseLeaseOperator(task_id="release_lease", grant=lease.output)
        chain(
            lease,
            LakeFSPlanRunOperator(task_id="plan", lease=lease.output, **PLANNED),
            LakeFSSliceListingOperator(task_id="slice_listing"),
            LakeFSMarkUncommittedOperator(task_id="mark_uncommitted"),  # staging before commits, always
            LakeFSListCommittedOperator(task_id="list_committed"),
            LakeFSSubtractLiveOperator(task_id="subtract"),
            LakeFSCheckLimitsOperator(task_id="check_limits"),
            LakeFSBulkDeleteOperator(task_id="bulk_delete"),
            LakeFSVerifySweepOperator(task_id="verify"),
            LakeFSSaveReportOperator(
                task_id="save_report", trigger_rule="all_done", outlets=[Asset("dredge_lakefs_gc")]
            ),
            release.as_teardown(setups=lease),
        )
    return dag


lakefs_gc = gc_dag("lakefs_gc")
