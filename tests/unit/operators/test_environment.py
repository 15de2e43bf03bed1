"""Variables that a step needs are there while it runs, and not a moment longer."""

from __future__ import annotations

import os

import pytest

from airflow_dredge.operators.hooks.storage import tasks_environment
from dredge.storage import StorageOptions


def test_tasks_in_the_worker_see_the_stores_credentials_only_while_the_step_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "before")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    options = StorageOptions(region="inside", access_key_id="K", secret_access_key="hunter2")
    with tasks_environment(options):
        seen = StorageOptions.from_env()
    assert (seen.region, seen.access_key_id, seen.secret_access_key) == ("inside", "K", "hunter2")
    assert os.environ["AWS_REGION"] == "before"
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ
