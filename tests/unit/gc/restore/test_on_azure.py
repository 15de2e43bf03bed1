"""What a whole collection deletes on Azure comes back byte for byte from the versions that the account keeps."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dredge.gc.config import RestoreConfig
from dredge.gc.subtract import SubtractOutput
from dredge.gc.undo import restore
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions, open_reader
from tests.support.azure_server import AzureServer
from tests.support.gcs_lakes import client_of, collected, planted
from tests.support.lakefs_server import lakefs_server


@dataclass(frozen=True)
class AzurePlace:
    options: StorageOptions
    uri: str

    def contents(self) -> dict[str, bytes]:
        reader = open_reader(f"{self.uri}/lake/data", self.options)
        rows = [row for batch in reader.list() for row in batch.to_pylist()]
        readable = [row["key"] for row in rows if row["storage_class"] != "AZURE_ARCHIVE"]
        return {row["key"]: b"" for row in rows} | dict(reader.get_many(readable))


def test_what_a_run_deletes_on_azure_comes_back_from_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AzureServer() as server:
        place = AzurePlace(server.options, server.container(versioned=True, soft_delete_days=7))
        for name, value in server.options.to_env().items():
            monkeypatch.setenv(name, value)
        with lakefs_server(tmp_path, bucket=place) as lake:
            orphans = {"data/odd/a b#c?x=%20": b"orphan", "data/odd//x": b"orphan x"}
            tiers = {"data/odd/ice": b"archived", "data/odd/cool": b"moved lately"}
            repository, staying = planted(lake, orphans | tiers)
            blobs = server.held(place.uri).blobs
            blobs["lake/data/odd/ice"][-1].tier = "Archive"
            blobs["lake/data/odd/cool"][-1].tier = "Cool"
            before = place.contents()
            time.sleep(1.1)  # the store tells whole seconds
            run = collected(client_of(lake), undo="versions")
            assert run.plan.undo.why.endswith("7 days more")
            left = place.contents()
            assert left.items() <= before.items()
            assert len(before) - len(left) == 4
            assert "odd/ice" not in before.keys() - left.keys()
            candidates = run.folder.read_summary(SubtractOutput.STEP)
            assert candidates is not None
            assert candidates.counts["archived_objects"] == 1
            for path, data in staying.items():
                assert repository.branch("main").object(path).reader(mode="rb").read() == data
            wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
            done = restore(wanted, LocalRunner(), client=client_of(lake))
            assert done.counts["restored_objects"] == 4
            assert place.contents() == before
