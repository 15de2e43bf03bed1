"""Garbage collection of all lakeFS repositories of a server, or of those that match some globs.

Each repository has its own run of `lakefs_gc`, at most four at once; this DAG starts them, waits without a worker slot,
and writes one page with all results. Repositories in the Variable `dredge_gc_schedules` take their settings from there.
A failed run stops no other; a repository of another collector is skipped, with the reason on the page. A dry run (the
default) deletes nothing. For a schedule, write a DAG file with
`gc_all_dag("gc_nightly", "@daily", at_once=8, dry_run=False)`.
"""

from typing import Any

from airflow.sdk import DAG

from airflow_dredge.operators.dag_factory import About, Many, many_dag
from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.lakefs.many import (
    LakeFSChooseRepositoriesOperator,
    LakeFSCollectRepositoryOperator,
    LakeFSSaveSummaryOperator,
)
from airflow_dredge.operators.lakefs.params import ALL_FORM, WHICH

_ABOUT = About(doc=__doc__, tags=["dredge", "lakefs", "garbage collection"], default_args=RETRIES)
_MANY = Many(
    choose=LakeFSChooseRepositoriesOperator,
    collect=LakeFSCollectRepositoryOperator,
    summary=LakeFSSaveSummaryOperator,
    which=WHICH,
    asset="dredge_lakefs_gc_all",
)


def gc_all_dag(dag_id: str, schedule: str | None = None, at_once: int = 4, **defaults: Any) -> DAG:
    """Make the DAG: at most `at_once` repositories are collected at a time; `defaults` are values of its Params."""
    return many_dag(dag_id, _MANY, ALL_FORM, _ABOUT, schedule, at_once, **defaults)


lakefs_gc_all = gc_all_dag("lakefs_gc_all")
