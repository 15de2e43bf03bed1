"""Restore and purge tasks of lakeFS: settings and lease."""

from pathlib import Path

import pytest

from airflow_dredge.operators.undo import LakeFSPurgeOperator, LakeFSRestoreOperator
from dredge.errors import ConfigError, DefectError, LeaseHeldError
from tests.support.lakefs_operators import Pushed, acquire, hooked, namespace_in, release


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return namespace_in(tmp_path)


def test_a_purge_whose_mark_fails_gives_the_lease_back(namespace: str) -> None:
    operator = LakeFSPurgeOperator(task_id="purge", config={"repository": "lake", "dry_run": "True"})
    with pytest.raises(DefectError):  # the server of this test answers nothing about branches
        hooked(operator, namespace).execute({"run_id": "manual__1", "ti": Pushed()})
    release(namespace, acquire(namespace, "manual__2"))


def test_a_restore_of_a_run_that_is_not_there_says_so_and_gives_the_lease_back(namespace: str) -> None:
    config = {"repository": "lake", "run": "nothing", "all": "True", "prefix": "", "address": "None"}
    operator = LakeFSRestoreOperator(task_id="restore", config=config)
    with pytest.raises(ConfigError):
        hooked(operator, namespace).execute({"run_id": "manual__1", "ti": Pushed()})
    release(namespace, acquire(namespace, "manual__2"))


def test_neither_works_on_a_repository_that_a_collection_works_on(namespace: str) -> None:
    acquire(namespace, "manual__1")
    purging = LakeFSPurgeOperator(task_id="purge", config={"repository": "lake", "dry_run": False})
    with pytest.raises(LeaseHeldError):
        hooked(purging, namespace).execute({"run_id": "manual__2", "ti": Pushed()})
