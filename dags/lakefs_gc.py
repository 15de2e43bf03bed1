"""Garbage collection of one lakeFS repository.

Deletes objects without a reference in any branch's staging or active commit, once they are older than the minimum age
and have waited since an earlier run found them. A dry run (the default) deletes nothing; its report lists candidates,
and the reasons why other objects are kept. With `check_only` the task `check` lists missing permissions and other
obstacles, and there is no run.

`lakefs_gc` is for runs by hand. Schedules, with backfills, are entries of the Variable `dredge_gc_schedules`:
`{"gc_lake": {"schedule": "@hourly", "repository": "lake", "dry_run": false}}`.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.lakefs.mark_sweep import (
    LakeFSApproveOperator,
    LakeFSBulkDeleteOperator,
    LakeFSCheckLimitsOperator,
    LakeFSListCommittedOperator,
    LakeFSMarkUncommittedOperator,
    LakeFSPurgeOldOperator,
    LakeFSSliceListingOperator,
    LakeFSSubtractLiveOperator,
    LakeFSVerifySweepOperator,
)
from airflow_dredge.operators.lakefs.params import CONFIG, FORM, RUN_DEFAULTS, gc_params, gc_schedules
from airflow_dredge.operators.lakefs.run import (
    LakeFSAcquireLeaseOperator,
    LakeFSCheckOperator,
    LakeFSPlanRunOperator,
    LakeFSReleaseLeaseOperator,
    LakeFSSaveReportOperator,
)
from airflow_dredge.operators.params import share_params
from airflow_dredge.operators.run_check import UNCHECKED, task_arguments
from airflow_dredge.operators.schedules import (
    LEASE_RETRIES,
    first_task_arguments,
    of_this_parse,
    schedule_arguments,
)


def gc_dag(
    dag_id: str,
    schedule: str | None = None,
    default_args: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> DAG:
    """Make the DAG; `defaults` are values of its Params, `default_args` are for its tasks, as `{"pool": "gc"}`."""
    with DAG(
        dag_id,
        **schedule_arguments(schedule),
        default_args=task_arguments(FORM, RUN_DEFAULTS, default_args),
        params=gc_params(**defaults),
        tags=["dredge", "lakefs", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        check = LakeFSCheckOperator(task_id="check", config=CONFIG, **first_task_arguments(schedule))
        lease = LakeFSAcquireLeaseOperator(task_id="acquire_lease", retries=LEASE_RETRIES)
        report = LakeFSSaveReportOperator(
            task_id="save_report", outlets=[Asset("dredge_lakefs_gc")], **UNCHECKED
        )
        release = LakeFSReleaseLeaseOperator(task_id="release_lease", grant=lease.output, **UNCHECKED)
        chain(
            check,
            lease,
            LakeFSPlanRunOperator(task_id="plan", lease=lease.output, config=CONFIG),
            LakeFSSliceListingOperator(task_id="slice_listing"),
            LakeFSMarkUncommittedOperator(task_id="mark_uncommitted"),  # staging before commits, always
            LakeFSListCommittedOperator(task_id="list_committed"),
            LakeFSSubtractLiveOperator(task_id="subtract"),
            LakeFSCheckLimitsOperator(task_id="check_limits"),
            LakeFSApproveOperator(task_id="approve"),
            LakeFSBulkDeleteOperator(task_id="bulk_delete"),
            LakeFSVerifySweepOperator(task_id="verify"),
            LakeFSPurgeOldOperator(task_id="purge"),
            # A teardown also runs when a person marks the run as failed. This one decides about the run's state.
            report.as_teardown(on_failure_fail_dagrun=True),
            release.as_teardown(setups=lease),
        )
        check >> [report, release]  # the next run's check waits for them
    return share_params(dag)


lakefs_gc = gc_dag("lakefs_gc")
for name, settings in of_this_parse(gc_schedules()).items():
    gc_dag(name, **settings)
