"""Expiration and collection of many Icechunk repositories.

Each repository has its own run of `icechunk_expiration`, at most four at once; this DAG starts them, waits without
a worker slot, and writes one page with all results. Repositories in the Variable `dredge_icechunk_schedules` take their
settings from there. A failed run stops no other. A dry run (the default) changes and deletes nothing. For a schedule,
write a DAG file with `icechunk_all_dag("ice_nightly", "@daily", at_once=8, storages="s3://lake/*")`.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import About, Many, many_dag
from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.icechunk.many import (
    IcechunkChooseRepositoriesOperator,
    IcechunkCollectRepositoryOperator,
    IcechunkSaveSummaryOperator,
)
from airflow_dredge.operators.icechunk.params import ALL_FORM, WHICH

_ABOUT = About(doc=__doc__, tags=["dredge", "icechunk", "garbage collection"], default_args=RETRIES)
_MANY = Many(
    choose=IcechunkChooseRepositoriesOperator,
    collect=IcechunkCollectRepositoryOperator,
    summary=IcechunkSaveSummaryOperator,
    which=WHICH,
    asset="dredge_icechunk_all",
)


def icechunk_all_dag(dag_id: str, schedule: str | None = None, at_once: int = 4, **defaults: Any) -> DAG:
    """Make the DAG: at most `at_once` repositories are collected at a time; `defaults` are values of its Params."""
    return many_dag(dag_id, _MANY, ALL_FORM, _ABOUT, schedule, at_once, **defaults)


icechunk_all = icechunk_all_dag("icechunk_all")
