"""What a whole collection deletes on Azure comes back byte for byte from the versions that the account keeps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dredge.gc.restore.config import RestoreConfig
from dredge.gc.restore.step import restore
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.azure_server import AzureServer
from tests.support.gcs_lakes import client_of, collected, planted
from tests.support.lakefs_server import lakefs_server


@dataclass(frozen=True)
class AzurePlace:
    """A container for the embedded lakeFS."""

    options: StorageOptions
    uri: str

    def contents(self) -> dict[str, bytes]:
        reader = open_reader(f"{self.uri}/lake/data", self.options)
        return dict(reader.get_many([key for batch in reader.list() for key in batch["key"].to_pylist()]))


def test_what_a_run_deletes_on_azure_comes_back_from_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AzureServer() as server:
        place = AzurePlace(server.options, server.container(versioned=True, soft_delete_days=7))
        for name, value in server.options.to_env().items():
            monkeypatch.setenv(name, value)
        with lakefs_server(tmp_path, bucket=place) as lake:
            repository, staying = planted(
                lake, {"data/odd/a b#c?x=%20": b"orphan", "data/odd//x": b"orphan x"}
            )
            before = place.contents()
            time.sleep(1.1)  # the store tells whole seconds
            run = collected(client_of(lake), undo="versions")
            assert run.plan.undo.why.endswith("7 days more")
            left = place.contents()
            assert left.items() <= before.items()
            assert len(before) - len(left) == 3
            for path, data in staying.items():
                assert repository.branch("main").object(path).reader(mode="rb").read() == data
            wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
            done = restore(wanted, LocalRunner(), client=client_of(lake))
            assert done.counts["restored_objects"] == 3
            assert place.contents() == before
