"""What a whole collection deletes on Google Cloud Storage comes back byte for byte, from versions and from copies."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dredge.gc.restore import restore
from dredge.gc.undo_config import RestoreConfig
from dredge.runs.tasks import LocalRunner
from tests.support.gcs import GcsServer
from tests.support.gcs_lakes import ORPHANS, GcsBucket, client_of, collected, contents, planted
from tests.support.lakefs_server import lakefs_server


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


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
            assert "7 days" in run.plan.undo.why
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
