"""A lease is given back once, and only by its holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from dredge.errors import ConfigError
from tests.support.airflow import FILTERS
from tests.support.lakefs_operators import acquire, namespace_in, release

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


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


def test_release_without_a_lease_says_so(namespace: str) -> None:
    with pytest.raises(ConfigError, match="no lease was taken"):
        release(namespace, None)
