"""Icechunk operators without Airflow around them: a repository to expire, the tasks of a run, their XComs."""

from datetime import datetime
from typing import Any, NamedTuple

from airflow_dredge.operators.icechunk.collection import (
    IcechunkAcquireLeaseOperator,
    IcechunkPlanCollectionOperator,
    IcechunkReleaseLeaseOperator,
)
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import Graph
from tests.support.icechunk_repo import Repo
from tests.support.lakefs_operators import FirstTry

NOTHING: Any = {}
"""The context of a task without a need for one."""
OLD = Graph((("1", "0", 1), ("2", "1", 2), ("3", "2", 3)), {"main": "3", "old": "1"}, {"first": "1"})
AT_ONCE = {
    "unsafe_min_age_seconds": 0,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "mode": "clean",
}
"""Settings of a collection of all unreachable objects."""


class Dated(NamedTuple):
    """A repository with the history `OLD`, and a time between the last commit and all others."""

    repo: Repo
    when: datetime

    @property
    def digest(self) -> str:
        return read_history(open_reader(self.repo.uri)).digest


def acquire(repo: Repo, run_id: str, run_uri: str = "", **settings: Any) -> dict[str, Any]:
    operator = IcechunkAcquireLeaseOperator(
        task_id="acquire_lease", storage=repo.uri, run_uri=run_uri, aws_conn_id=None, **settings
    )
    context: Any = {"run_id": run_id, "ti": FirstTry()}
    returned: dict[str, Any] = operator.execute(context)
    return returned


def plan(repo: Repo, lease: Any = None, *, mode: str = "local", **config: Any) -> dict[str, Any]:
    operator = IcechunkPlanCollectionOperator(
        task_id="plan_collection",
        storage=repo.uri,
        lease=lease,
        mode=mode,
        config={**AT_ONCE, **config},
        aws_conn_id=None,
    )
    return operator.execute(NOTHING)


def release(repo: Repo, grant: Any, run_uri: str = "") -> dict[str, Any]:
    operator = IcechunkReleaseLeaseOperator(
        task_id="release_lease", storage=repo.uri, grant=grant, run_uri=run_uri, aws_conn_id=None
    )
    return operator.execute(NOTHING)
