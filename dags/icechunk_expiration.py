"""Expiration and collection of one Icechunk repository.

Removes snapshots older than a threshold from the history, then deletes unreachable objects. A dry run (the default)
changes and deletes nothing; its plan shows the history before and after, and its report lists the objects that a
collection would delete after the expiration. With `check_only` the task `check` lists missing permissions and other
obstacles, and there is no run.

`icechunk_expiration` is for runs by hand. Schedules, with backfills, are entries of the Variable
`dredge_icechunk_schedules`:
`{"expire_weather": {"schedule": "@daily", "storage": "s3://lake/weather", "dry_run": false}}`.
"""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.icechunk.collection import (
    IcechunkAcquireLeaseOperator,
    IcechunkApproveOperator,
    IcechunkCheckOperator,
    IcechunkCollectOperator,
    IcechunkMarkOperator,
    IcechunkPlanCollectionOperator,
    IcechunkReleaseLeaseOperator,
    IcechunkSaveReportOperator,
)
from airflow_dredge.operators.icechunk.expiration import (
    IcechunkExpireOperator,
    IcechunkPlanExpirationOperator,
)
from airflow_dredge.operators.icechunk.params import (
    COLLECTION,
    EXPIRATION,
    FORM,
    ICECHUNK_SCHEDULES,
    RUN_DEFAULTS,
    icechunk_params,
)
from airflow_dredge.operators.params import share_params
from airflow_dredge.operators.run_check import UNCHECKED, task_arguments
from airflow_dredge.operators.schedules import (
    LEASE_RETRIES,
    first_task_arguments,
    of_this_parse,
    read_schedules,
    schedule_arguments,
)


def icechunk_dag(
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
        params=icechunk_params(**defaults),
        tags=["dredge", "icechunk", "garbage collection"],
        doc_md=__doc__,
    ) as dag:
        check = IcechunkCheckOperator(task_id="check", config=COLLECTION, **first_task_arguments(schedule))
        lease = IcechunkAcquireLeaseOperator(task_id="acquire_lease", retries=LEASE_RETRIES)
        release = IcechunkReleaseLeaseOperator(task_id="release_lease", grant=lease.output, **UNCHECKED)
        plan = IcechunkPlanExpirationOperator(
            task_id="plan_expiration", config=EXPIRATION, min_age_hours="{{ params.min_age_hours }}"
        )
        collection = IcechunkPlanCollectionOperator(
            task_id="plan_collection", lease=lease.output, expiration=plan.output, config=COLLECTION
        )
        report = IcechunkSaveReportOperator(
            task_id="save_report",
            plan=collection.output,
            outlets=[Asset("dredge_icechunk_collection")],
            **UNCHECKED,
        )
        chain(
            check,
            lease,
            plan,
            IcechunkExpireOperator(task_id="expire", plan=plan.output, lease=lease.output),
            collection,
            IcechunkMarkOperator(task_id="mark", plan=collection.output),
            IcechunkApproveOperator(task_id="approve"),
            IcechunkCollectOperator(task_id="collect", plan=collection.output),
            # A teardown also runs when a person marks the run as failed. This one decides about the run's state.
            report.as_teardown(on_failure_fail_dagrun=True),
            release.as_teardown(setups=lease),
        )
        check >> [report, release]  # the next run's check waits for them
    return share_params(dag)


icechunk_expiration = icechunk_dag("icechunk_expiration")
for name, settings in of_this_parse(read_schedules(ICECHUNK_SCHEDULES, "storage")).items():
    icechunk_dag(name, **settings)
