"""A whole collection on Azure behind the embedded lakeFS: it deletes the garbage and nothing else, and what it deleted
comes back byte for byte."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lakefs
import pytest

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run, release_lease
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.gc.undo import restore
from dredge.gc.undo_config import RestoreConfig
from dredge.lakefs import LakeFSClient
from dredge.runs.payload import from_json
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.azure import TestContainer, make_container
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

pytestmark = pytest.mark.stores

ORPHANS = {
    "data/odd/a b#c?x=%20": b"orphan",
    "data/odd//x": b"orphan x",
    "data/odd/tail/": b"orphan tail",
    "data/odd/café\u2028😀": b"orphan text",
    "data/odd/\ufb01": b"orphan order",
}


@pytest.fixture
def container(azure_options: StorageOptions) -> TestContainer:
    return make_container(azure_options)


def contents(container: TestContainer) -> dict[str, bytes]:
    reader = open_reader(f"{container.uri}/lake/data", container.options)
    names = [key for batch in reader.list() for key in batch["key"].to_pylist()]
    assert {f"lake/data/{name}" for name in names} == {
        name for name in container.names() if name.startswith("lake/data/")
    }
    return {f"data/{key}": data for key, data in reader.get_many(names)}


def collected(client: LakeFSClient, **more: Any) -> Run:
    """A collection that deletes, and trusts every object to be old."""
    config = {
        "repository": "lake",
        "mode": "clean",
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
        **more,
    }
    run = Run.open(plan_run(from_json(GCConfig, config), None, client).run_uri, None, client)
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
    main.object("linked late").upload(b"put by a signed URL", pre_sign=True)
    main.object("staged, deleted").upload(b"garbage")
    main.object("staged, deleted").delete()
    for key, data in ORPHANS.items():
        lake.writer().put(key, data)
    return repository, {
        found.path: main.object(found.path).reader(mode="rb").read() for found in main.objects()
    }


def test_what_a_run_deletes_on_azure_comes_back_byte_for_byte(
    container: TestContainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in container.options.to_env().items():
        monkeypatch.setenv(name, value)
    with lakefs_server(tmp_path, bucket=container, presign=True) as lake:
        client = LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
        repository, staying = planted(lake)
        assert staying["linked late"] == b"put by a signed URL"
        before = contents(container)
        time.sleep(1.1)  # the store tells whole seconds
        run = collected(client, undo="quarantine")
        left = contents(container)
        gone = before.keys() - left.keys()
        assert left.items() <= before.items()
        assert gone >= ORPHANS.keys()
        assert len(gone) == len(ORPHANS) + 1
        for path, data in staying.items():
            assert repository.branch("main").object(path).reader(mode="rb").read() == data

        wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
        assert restore(wanted, LocalRunner(), client=client).counts["restored_objects"] == len(gone)
        assert contents(container) == before
