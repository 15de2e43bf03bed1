"""Everything that a run deletes on S3 comes back byte for byte, from versions and from copies, and what
was not brought back goes for good, and nothing else."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from dredge.gc.config import PurgeConfig, RestoreConfig
from dredge.gc.run import RUNS, Run
from dredge.gc.steps import purge
from dredge.gc.undo import restore
from dredge.lakefs import LakeFSClient
from dredge.runs.clock import utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_writer
from dredge.undo import purge as purging
from dredge.undo.pins import end_pin, read_pins
from tests.support.gcs_lakes import client_of, collected
from tests.support.lakefs_server import lakefs_server
from tests.support.objectstore import TestBucket, make_bucket, moto_server

# moto cannot list versions of a key with a control character; S3 encodes it.
ORPHANS = {
    "data/odd/a b#c": b"orphan",
    "data/odd//x": b"orphan x",
    "data/odd/tail/": b"orphan tail",
    "data/odd/ctrl\x01x": b"orphan ctrl",
    "data/plain": b"0123456789",
}


def contents(bucket: TestBucket) -> dict[str, bytes]:
    """Everything below `data/` of the lake, as an independent client reads it."""
    return {
        key: bucket.client.get_object(Bucket=bucket.bucket, Key=key)["Body"].read()
        for key in bucket.keys("lake/data/")
    }


@pytest.mark.parametrize("way", ["versions", "quarantine"])
def test_what_a_run_deletes_on_s3_comes_back_byte_for_byte(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto_server() as options:
        bucket = make_bucket(options, versioned=way == "versions")
        for name, value in options.to_env().items():
            monkeypatch.setenv(name, value)
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            branch = lake.repository().branch("main")
            branch.object("kept").upload(b"kept")
            branch.commit("kept")
            orphans = {
                key: data
                for key, data in ORPHANS.items()
                if (key.isprintable() if way == "versions" else not key.endswith("/"))  # which stays
            }
            for key, data in orphans.items():
                lake.writer().put(key, data)
            before = contents(bucket)
            time.sleep(1.1)  # the store tells whole seconds
            client, undo = client_of(lake), {"undo": way} if way == "quarantine" else {}
            run = collected(client, **undo)
            assert run.plan.undo.way == way
            assert len(contents(bucket)) == len(before) - len(orphans)

            wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
            done = restore(wanted, LocalRunner(), client=client)
            assert done.counts["restored_objects"] == len(orphans)
            assert contents(bucket) == before

            (pin,) = read_pins(run.state)
            end_pin(run.state, pin.pin_id, run.store_now())
            time.sleep(1.1)
            purged_for_good(bucket, client, collected(client, **undo), before, orphans, monkeypatch)


def left_of(bucket: TestBucket, run: Run) -> set[str]:
    folder = f"lake/_lakefs/retention/gc/unified/{run.plan.run_id}/quarantine/"
    found = {key.removeprefix(folder) for key in bucket.keys(folder)}
    for page in bucket.client.get_paginator("list_object_versions").paginate(
        Bucket=bucket.bucket, Prefix="lake/data/"
    ):
        older = [item for item in page.get("Versions", []) if not item["IsLatest"]]
        found |= {item["Key"].removeprefix("lake/") for item in [*older, *page.get("DeleteMarkers", [])]}
    return found


def purged_for_good(
    bucket: TestBucket,
    client: LakeFSClient,
    run: Run,
    before: dict[str, bytes],
    orphans: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later: a purge lets go what was deleted, but not what was brought back."""
    one = RestoreConfig(repository="lake", run=run.plan.run_id, address="data/plain", keep_days=100)
    restore(one, LocalRunner(), client=client)
    back = {key: data for key, data in before.items() if key.removeprefix("lake/") not in orphans}
    back["lake/data/plain"] = before["lake/data/plain"]
    left = left_of(bucket, run)
    assert left >= set(orphans) - {"data/plain"}
    monkeypatch.setattr(purging, "_cutoff", lambda *_: utc_now() + timedelta(minutes=1))
    going = PurgeConfig(repository="lake", run=run.plan.run_id, dry_run=False)
    done = purge(going, LocalRunner(), client=client)
    rows = [row for part in done.parts for row in run_folder(done, run).read_part(part).to_pylist()]
    assert {row["address"] for row in rows if row["outcome"] == "purged"} == set(orphans) - {"data/plain"}
    assert left_of(bucket, run) <= {"data/plain"}
    assert contents(bucket) == back


def run_folder(done: StepSummary, run: Run) -> RunFolder:
    return RunFolder(open_writer(f"{run.plan.namespace}/{RUNS}/{done.run_id}"), done.run_id)
