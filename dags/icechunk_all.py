"""Expiration and collection of many Icechunk repositories.

Each repository has a run of `icechunk_expiration` of its own, at most four at once; this DAG starts them, waits without
a worker slot, and writes one page about all. Repositories that the Variable `dredge_icechunk_schedules` names have the
settings from there. One that fails stops no other. A dry run (the default) changes and deletes nothing. For a schedule,
make a DAG file of your own with `icechunk_all_dag("ice_nightly", "@daily", at_once=8, storages="s3://lake/*")`.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.icechunk.many import (
    IcechunkChooseRepositoriesOperator,
    IcechunkCollectRepositoryOperator,
    IcechunkSaveSummaryOperator,
)
from airflow_dredge.operators.icechunk.params import ALL_FORM, UNDO_DEFAULTS, WHICH
from airflow_dredge.operators.making import About, Many, many_dag

_ABOUT = About(doc=__doc__, tags=["dredge", "icechunk", "garbage collection"], default_args=UNDO_DEFAULTS)
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
