"""A lease is given back once, and only by its holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_dredge.operators import gates
from tests.support.lakefs_operators import acquire, namespace_in, release


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


def test_late_release_leaves_the_lease_of_the_next_run_alone(namespace: str) -> None:
    first = acquire(namespace, "manual__1")
    release(namespace, first)
    acquire(namespace, "manual__2")
    release(namespace, first)
    with pytest.raises(AirflowRescheduleException):
        acquire(namespace, "manual__3")


def test_the_spark_application_of_the_run_ends_before_the_lease(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = acquire(namespace, "manual__1")
    ended: list[str] = []

    def end(run_uri: str) -> None:
        ended.append(run_uri)
        with pytest.raises(AirflowRescheduleException):  # it still has it
            acquire(namespace, "manual__2")

    monkeypatch.setattr(gates, "end_applications", end)
    release(namespace, grant, run_uri="file:///nowhere/run")
    assert ended == ["file:///nowhere/run"]
    acquire(namespace, "manual__2")
