"""A whole collection behind the embedded lakeFS, on the emulator of Google Cloud Storage."""

import time
from pathlib import Path

import pytest

from tests.support.gcs import fake_gcs, make_gcs_bucket
from tests.support.gcs_lakes import ORPHANS, GcsBucket, client_of, collected, contents, planted
from tests.support.lakefs_server import lakefs_server

pytestmark = pytest.mark.stores


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


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
