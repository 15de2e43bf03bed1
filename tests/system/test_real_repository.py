"""A repository that a real lakeFS server wrote, collected against that server's own captured answers."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator

import pytest

from dredge.gc.config import GCConfig
from dredge.gc.steps import collect
from dredge.lakefs import LakeFSClient
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from tests.support.captured import FOLDER, REPOSITORY, truth
from tests.support.objectstore import moto_server
from tests.support.replayed_lakefs import replayed_lakefs

pytestmark = pytest.mark.system

PREFIX = "basic/basic-fixture/"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StorageOptions, object]]:
    """The namespace as the server left it, on an S3 server, reached as tasks reach it: by the environment."""
    import boto3

    with moto_server() as options:
        for name, value in options.to_env().items():
            monkeypatch.setenv(name, value)
        client = boto3.client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
        )
        client.create_bucket(Bucket="lake")
        with (FOLDER / "listing.csv").open() as lines:
            for row in csv.DictReader(lines):
                content = (FOLDER / "namespace" / row["key"]).read_bytes()
                client.put_object(Bucket="lake", Key=PREFIX + row["key"], Body=content)
        time.sleep(2.1)  # older than the minimum age, by the store's clock of whole seconds
        yield options, client


def keys_of(client: object) -> set[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=PREFIX)  # type: ignore[attr-defined]
    keys = {item["Key"].removeprefix(PREFIX) for page in pages for item in page.get("Contents", [])}
    return {key for key in keys if not key.startswith("_lakefs/")}


def expected(verdict: str) -> set[str]:
    return {item["key"] for item in truth()["objects"] if item["verdict"] == verdict}


def run(endpoint: str, options: StorageOptions, dry_run: bool) -> dict[str, int]:
    config = GCConfig(
        repository=REPOSITORY,
        mode="clean",
        dry_run=dry_run,
        unsafe_min_age_seconds=1,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
        keep_unnamed_days=0,
    )
    client = LakeFSClient(endpoint, "key", "secret")
    return dict(collect(config, LocalRunner(), client, options).counts)


def test_a_run_on_a_real_repository_deletes_exactly_the_truths_garbage(
    lake: tuple[StorageOptions, object],
) -> None:
    options, client = lake
    assert keys_of(client) == expected("keep") | expected("delete")
    with replayed_lakefs() as (endpoint, replay):
        run(endpoint, options, dry_run=False)
    assert keys_of(client) == expected("keep")
    assert replay.unknown == []
    pages = [line for line in replay.asked if line.endswith("prepare_uncommited")]
    assert len(pages) == 30, "all 15 pages, for the mark and again for the re-check"
