"""The table of steps that run on Spark."""

from __future__ import annotations

import pytest

from airflow_dredge.spark_jobs.job import Job
from airflow_dredge.spark_jobs.step import JOBS
from dredge.errors import ConfigError
from dredge.gc import steps


def test_every_distributed_step_is_in_the_table_under_its_own_name() -> None:
    others = {"icechunk_mark", "icechunk_collect", "check_executors"}
    assert set(JOBS) == {"slice_listing", "list_committed", "subtract", "bulk_delete", *others}
    assert all(hasattr(steps, name) for name in set(JOBS) - others)


def test_a_session_ends_with_the_last_step_of_a_run_only() -> None:
    last = {"bulk_delete", "icechunk_collect", "check_executors"}
    assert {name for name, job in JOBS.items() if job.last} == last


def test_a_path_is_not_taken_for_a_uri() -> None:
    def step(*_: object) -> None:
        raise AssertionError("nothing is done")

    with pytest.raises(ConfigError):
        Job(step).run(None, "/tmp/run")  # type: ignore[arg-type]
