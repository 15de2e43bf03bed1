"""Everything that a run deletes on S3 comes back byte for byte, from versions and from copies, also in parts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run, release_lease
from dredge.gc.purge.config import PurgeConfig
from dredge.gc.purge.step import purge
from dredge.gc.restore.config import RestoreConfig
from dredge.gc.restore.step import restore
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.tasks import LocalRunner
from dredge.storage.s3 import copying
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.objectstore import TestBucket, make_bucket, moto_server

# moto cannot list versions of a key with a control character; S3 encodes it.
ORPHANS = {
    "data/odd/a b#c": b"orphan",
    "data/odd//x": b"orphan x",
    "data/odd/tail/": b"orphan tail",
    "data/odd/ctrl\x01x": b"orphan ctrl",
    "data/large": b"0123456789" * 600_000,
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
    monkeypatch.setattr(copying, "COPY_LIMIT_BYTES", 1000)
    monkeypatch.setattr(copying, "PART_BYTES", 5 << 20)
    with moto_server() as options:
        bucket = make_bucket(options, versioned=way == "versions")
        for name, value in options.to_env().items():
            monkeypatch.setenv(name, value)
        with lakefs_server(tmp_path, bucket=bucket) as lake:
            branch = lake.repository().branch("main")
            branch.object("kept").upload(b"kept")
            branch.commit("kept")
            orphans = {key: data for key, data in ORPHANS.items() if way == "quarantine" or key.isprintable()}
            for key, data in orphans.items():
                lake.writer().put(key, data)
            before = contents(bucket)
            time.sleep(1.1)  # the store tells whole seconds
            client = LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
            config = {"repository": "lake", "mode": "clean", "dry_run": False, "unsafe_min_age_seconds": 0}
            asked = config | ({} if way == "versions" else {"undo": way})
            run = Run.open(plan_run(GCConfig.from_json(asked), None, client).run_uri, None, client)
            assert run.plan.undo.way == way
            run_steps(run, LocalRunner())
            release_lease(run)
            assert len(contents(bucket)) == len(before) - len(orphans)

            wanted = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
            done = restore(wanted, LocalRunner(), client=client)
            assert done.counts["restored_objects"] == len(orphans)
            assert contents(bucket) == before

            going = PurgeConfig(repository="lake", dry_run=False, run=run.plan.run_id)
            assert purge(going, LocalRunner(), client=client).counts["pinned_objects"] == len(orphans)
            assert contents(bucket) == before
