"""Retention against the embedded server over HTTP, with tasks in other processes, and on S3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import lakefs_sdk
import pytest

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run, release_lease
from dredge.gc.retention.policy import read_policy
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.payload import from_json, to_json
from dredge.runs.tasks import LocalRunner
from tests.support.gc import summary_of
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.objectstore import moto_s3

POLICY = """\
version: 1
keep:
  - {name: audit, paths: 'audit/**'}
  - {name: recent, branches: main, last: 2}
"""


@contextmanager
def planned(lake: Lake) -> Iterator[Run]:
    client = LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
    settings = {
        "repository": "lake",
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
    }
    tuning = {"part_rows": 2, "candidate_rows": 2}
    config = from_json(GCConfig, {**settings, "tuning": tuning, "policy": to_json(read_policy(POLICY, "p"))})
    plan = plan_run(config, None, client)
    context = Run.open(plan.run_uri, None, client)
    try:
        yield context
    finally:
        release_lease(context)


def fill(lake: Lake) -> dict[str, list[str]]:
    """Four old commits; gives keys by path, oldest first."""
    main = lake.repository().branch("main")
    addresses: dict[str, list[str]] = {"audit/a": [], "b": []}
    for number in range(4):
        for path, found in addresses.items():
            made = main.object(path).upload(f"{path} {number}".encode())
            found.append(made.stat().physical_address.rpartition("/lake/")[2])
        date = int((lake.clock() - timedelta(days=40 - number)).timestamp())
        main.commit(str(number), date=date)
    rules = lakefs_sdk.GarbageCollectionRules(default_retention_days=1, branches=[])
    lake.sdk.repositories_api.set_gc_rules("lake", rules)
    return addresses


def expected(addresses: dict[str, list[str]]) -> set[str]:
    return {*addresses["audit/a"], *addresses["b"][-2:]}


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def test_a_policy_is_kept_by_tasks_in_other_processes(tmp_path: Path) -> None:
    with lakefs_server(tmp_path) as lake:
        addresses = fill(lake)
        with planned(lake) as context, LocalRunner(processes=2) as runner:
            run_steps(context, runner)
        assert keys(lake) == expected(addresses)
        told = {found["name"]: found for found in summary_of(context, "list_committed").details["kept"]}
        # Of the older commits the rule about paths keeps three objects, one of them together with "recent".
        assert (told["policy: audit"]["objects"], told["policy: audit"]["only_objects"]) == (3, 2)
        assert (told["policy: recent"]["objects"], told["policy: recent"]["only_objects"]) == (2, 1)


def test_a_policy_is_kept_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_s3() as bucket, lakefs_server(tmp_path, bucket=bucket) as lake:
        for name, value in bucket.options.to_env().items():
            monkeypatch.setenv(name, value)
        addresses = fill(lake)
        time.sleep(1.1)  # the store tells whole seconds
        with planned(lake) as context:
            run_steps(context, LocalRunner())
        assert keys(lake) == expected(addresses)
