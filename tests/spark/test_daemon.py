"""Workers are forked from a daemon that has loaded what tasks share, and that runs nothing beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_dredge.spark_jobs import daemon
from airflow_dredge.spark_jobs.rows import SparkRunner
from tests.support.spark import describe_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_workers_share_what_their_daemon_has_loaded(session: SparkSession) -> None:
    (found,) = SparkRunner(session).run("describe", describe_worker, {}, [{}])
    assert found["kernels"]
    assert {"-m", daemon.MODULE} <= set(found["parent"])
    # Besides the one that forks: a thread that holds a lock while it does would leave it locked in the worker.
    assert found["threads"] == 1
