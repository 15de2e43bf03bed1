"""A whole collection on Azure behind the embedded lakeFS: it deletes the garbage and nothing else, and what it deleted
comes back byte for byte."""

import time
from pathlib import Path

import pytest

from dredge.gc.config import RestoreConfig
from dredge.gc.undo import restore
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.azure import TestContainer, make_container
from tests.support.gcs_lakes import client_of, collected, planted
from tests.support.lakefs_server import lakefs_server

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


def test_what_a_run_deletes_on_azure_comes_back_byte_for_byte(
    container: TestContainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in container.options.to_env().items():
        monkeypatch.setenv(name, value)
    with lakefs_server(tmp_path, bucket=container, presign=True) as lake:
        client = client_of(lake)
        repository, staying = planted(lake, ORPHANS)
        staying["linked late"] = b"put by a signed URL"
        repository.branch("main").object("linked late").upload(staying["linked late"], pre_sign=True)
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
