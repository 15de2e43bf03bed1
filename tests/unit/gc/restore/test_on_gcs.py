"""A whole collection on Google Cloud Storage behind the embedded lakeFS: it deletes the garbage and nothing else, and
what it deleted comes back byte for byte."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakefs
import pytest

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run, release_lease
from dredge.gc.restore.config import RestoreConfig
from dredge.gc.restore.step import restore
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.gcs import GcsServer, fake_gcs, make_gcs_bucket
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

ORPHANS = {
    "data/odd/a b#c?x=%20": b"orphan",
    "data/odd//x": b"orphan x",
    "data/odd/tail/": b"orphan tail",
    "data/odd/../x": b"orphan dots",
    "data/odd/café\u2028😀": b"orphan text",
    "data/odd/ctrl\x01x": b"orphan ctrl",
}


@dataclass(frozen=True)
class GcsBucket:
    """A bucket for the embedded lakeFS."""

    options: StorageOptions
    uri: str


def contents(bucket: GcsBucket) -> dict[str, bytes]:
    reader = open_reader(f"{bucket.uri}/lake/data", bucket.options)
    names = [key for batch in reader.list() for key in batch["key"].to_pylist()]
    return {f"data/{key}": data for key, data in reader.get_many(names)}


def collected(client: LakeFSClient, **more: Any) -> Run:
    """A collection that deletes, and trusts every object to be old."""
    config = {"repository": "lake", "mode": "clean", "dry_run": False, "unsafe_min_age_seconds": 0, **more}
    run = Run.open(plan_run(GCConfig.from_json(config), None, client).run_uri, None, client)
    run_steps(run, LocalRunner())
    release_lease(run)
    return run


def planted(lake: Lake) -> tuple[lakefs.Repository, dict[str, bytes]]:
    """A lake with what is committed, staged and linked, and garbage beside it; gives what must stay."""
    repository = lake.repository()
    main = repository.branch("main")
    for number in range(4):
        main.object(f"path {number}/ü%20").upload(b"committed %d" % number)
    main.commit("first")
    main.object("staged").upload(b"staged and not committed")
    main.object("staged, deleted").upload(b"garbage")
    main.object("staged, deleted").delete()
    for key, data in ORPHANS.items():
        lake.writer().put(key, data)
    staying = {found.path: main.object(found.path).reader(mode="rb").read() for found in main.objects()}
    return repository, staying


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def client_of(lake: Lake) -> LakeFSClient:
    return LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)


@pytest.mark.parametrize("way", ["versions", "quarantine"])
def test_what_a_run_deletes_on_gcs_comes_back_byte_for_byte(
    way: str, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    with GcsServer() as server:
        bucket = GcsBucket(
            server.options, server.bucket(versioned=way == "versions", soft_delete_seconds=604800)
        )
        environment.setenv("STORAGE_EMULATOR_HOST", server.url)
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            repository, staying = planted(lake)
            before = contents(bucket)
            time.sleep(0.01)  # the store tells milliseconds
            run = collected(client_of(lake), undo=way)
            assert "7 days more" in run.plan.undo.why
            left = contents(bucket)
            assert before.items() - left.items() == {
                (key, before[key]) for key in before.keys() - left.keys()
            }
            assert len(before) - len(left) == len(ORPHANS) + 1
            assert ORPHANS.keys() & left.keys() == set()
            for path, data in staying.items():
                assert repository.branch("main").object(path).reader(mode="rb").read() == data

            wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
            done = restore(wanted, LocalRunner(), client=client_of(lake))
            assert done.counts["restored_objects"] == len(ORPHANS) + 1
            assert contents(bucket) == before


def test_a_run_on_the_emulator_deletes_the_garbage_and_nothing_else(
    tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    with fake_gcs() as options:
        bucket = GcsBucket(options, make_gcs_bucket(options))
        environment.setenv("STORAGE_EMULATOR_HOST", options.gcs.endpoint)
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            repository, staying = planted(lake)
            before = contents(bucket)
            time.sleep(0.01)
            collected(client_of(lake))
            gone = before.keys() - contents(bucket).keys()
            assert ORPHANS.keys() <= gone
            assert len(gone) == len(ORPHANS) + 1
            for path, data in staying.items():
                assert repository.branch("main").object(path).reader(mode="rb").read() == data
