"""The icechunk_expiration DAG with real Spark jobs on S3, beside the library on a copy of the repository."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.icechunk.format.metadata import instant
from dredge.icechunk.library import expire_with_library, open_library
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.airflow import FILTERS, Airflow, connections
from tests.support.icechunk import (
    OBJECT_FOLDERS,
    build,
    contents,
    deleted_of,
    graph_of,
    s3_storage,
    scenarios,
)
from tests.support.objectstore import TestBucket, make_bucket, moto_server

pytestmark = [pytest.mark.system, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@dataclass(frozen=True)
class Twins:
    bucket: TestBucket
    threshold: datetime
    before: dict[str, list[int]]

    @property
    def uri(self) -> str:
        return f"{self.bucket.uri}/ours"

    @classmethod
    def make(cls, bucket: TestBucket, spec_version: int) -> Twins:
        ids = build(s3_storage(bucket.options, bucket.bucket, "ours"), graph_of(scenarios()[0]), spec_version)
        for key in bucket.keys("ours/"):
            source = {"Bucket": bucket.bucket, "Key": key}
            twin = key.replace("ours/", "theirs/", 1)
            bucket.client.copy_object(Bucket=bucket.bucket, Key=twin, CopySource=source)
        times = read_history(open_reader(f"{bucket.uri}/ours", bucket.options)).snapshots
        middle = (times[ids["7"]].flushed_at + times[ids["8"]].flushed_at) // 2
        made = cls(bucket, instant(middle), {})
        made.before.update(made.refs())
        time.sleep(2)  # the store counts in whole seconds, and none of these is young
        return made

    def library(self, prefix: str) -> Any:
        return open_library(f"{self.bucket.uri}/{prefix}", self.bucket.options)

    def refs(self) -> dict[str, list[int]]:
        library = self.library("ours")
        read = {f"branch {name}": contents(library, branch=name) for name in library.list_branches()}
        return read | {f"tag {name}": contents(library, tag=name) for name in library.list_tags()}

    def names(self, prefix: str) -> set[str]:
        return {
            key.removeprefix(f"{prefix}/")
            for folder in OBJECT_FOLDERS
            for key in self.bucket.keys(f"{prefix}/{folder}/")
        }

    def collect_theirs(self) -> dict[str, int]:
        library = self.library("theirs")
        expire_with_library(library, self.threshold, delete_branches=False, delete_tags=False)
        cutoff = datetime.now(UTC) + timedelta(seconds=2)
        said = library.garbage_collect(cutoff, dry_run=True)
        library.garbage_collect(cutoff)
        return deleted_of(said)

    def conf(self, **changes: Any) -> dict[str, Any]:
        settings = {
            "dry_run": False,
            "unsafe_min_age_seconds": 0,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
        }
        return {"storage": self.uri, "older_than": self.threshold.isoformat(), **settings, **changes}

    def assert_collected_like_the_library(self, counts: dict[str, int]) -> None:
        said = self.collect_theirs()
        for kind in OBJECT_FOLDERS:
            assert counts.get(f"{kind}_deleted_objects", 0) == said[kind], kind
        assert sum(said.values()) > 0
        assert counts["deleted_objects"] == sum(said.values())
        assert self.names("ours") == self.names("theirs")
        assert self.refs() == self.before
        soon = datetime.now(UTC) + timedelta(seconds=2)
        left = self.library("ours").garbage_collect(soon, dry_run=True)
        assert not any(deleted_of(left).values())


@pytest.fixture
def twins(request: pytest.FixtureRequest) -> Iterator[Twins]:
    """Known to Airflow by its connections only."""
    with ExitStack() as stack:
        options = stack.enter_context(moto_server())
        aws = {
            "conn_type": "aws",
            "login": options.access_key_id,
            "password": options.secret_access_key,
            "extra": {"endpoint_url": options.endpoint_url, "region_name": options.region},
        }
        spark = {"conn_type": "spark", "host": "local[2]"}
        stack.enter_context(connections(aws_default=aws, spark_default=spark))
        yield Twins.make(make_bucket(options), request.param)


# The first format is read below, by the worker alone, and on Spark in tests/spark.
@pytest.mark.parametrize("twins", [pytest.param(1, marks=pytest.mark.long), 2], indirect=True)
def test_spark_submit_deletes_what_the_library_deletes_and_every_ref_reads_back(
    airflow: Airflow, twins: Twins
) -> None:
    run = airflow.run("icechunk_expiration", twins.conf())
    assert run.tasks == dict.fromkeys(run.tasks, "success")
    assert run.state == "success"
    twins.assert_collected_like_the_library(run.returned["collect"]["counts"])
