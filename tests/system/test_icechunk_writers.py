"""A collection beside writers of every release line of the library: 0.2.9, 1.1.21 and the one that Dredge uses.

Marked long: environments with older releases are made by uv, on Python 3.11, where the wheels of old releases are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.library import collect_with_library, library_storage, open_library
from dredge.runs.clock import utc_now
from dredge.storage import StorageOptions
from tests.support.icechunk import quiet
from tests.support.objectstore import TestBucket, make_bucket, moto_server

pytestmark = pytest.mark.long

RELEASES = {"0.2.9": "zarr<3.2", "1.1.21": "zarr>=3"}
COMMITS = 40
AGE_SECONDS = 20
EVERY_SECONDS = 0.5

_WRITER = """
import sys, icechunk, zarr
endpoint, bucket, name, commits, key, secret = sys.argv[1:]
storage = icechunk.s3_storage(bucket=bucket, prefix="repo", region="us-east-1", endpoint_url=endpoint, allow_http=True,
                              access_key_id=key, secret_access_key=secret, force_path_style=True)
repo = icechunk.Repository.open(storage)
failed = []
for number in range(int(commits)):
    try:
        session = repo.writable_session(name)
        zarr.open_array(session.store, path="numbers")[number % 5] = number + 1
        session.commit(f"{name} {number}")
    except Exception as error:
        failed.append(f"{type(error).__name__}: {str(error)[:200]}")
array = zarr.open_array(repo.readonly_session(name).store, path="numbers", mode="r")
print(len(failed), [int(value) for value in array[:]], *failed[:3], sep="|")
"""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Python with each release of the library."""
    uv = shutil.which("uv")
    assert uv is not None, "the older releases need uv"
    found = {"ours": sys.executable}
    for release, zarr in RELEASES.items():
        folder = tmp_path_factory.mktemp("release") / release
        subprocess.run([uv, "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        wanted = [f"icechunk=={release}", zarr]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True)
        found[release] = python
    return found


@pytest.fixture
def bucket() -> Iterator[TestBucket]:
    with moto_server() as options:
        yield make_bucket(options)


def made(bucket: TestBucket, releases: list[str]) -> str:
    """A repository of spec 1 that every release reads, with a branch for each."""
    import zarr

    uri = f"s3://{bucket.bucket}/repo"
    config = quiet().RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    storage = library_storage(uri, StorageOptions.from_env())
    repo = quiet().Repository.create(storage, config=config, spec_version=1)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="numbers", shape=(5,), chunks=(1,), dtype="i8", compressors=None)
    root = session.commit("numbers")
    for release in releases:
        repo.create_branch(f"w{release}", root)
    for number in range(5):  # what an expiration makes garbage, old enough when writers begin
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="numbers")[0] = number + 1
        session.commit(f"number {number}")
    expire(uri, utc_now())
    time.sleep(AGE_SECONDS + 2)
    return uri


def ours(uri: str) -> int:
    config = CollectConfig(
        uri=uri, dry_run=False, unsafe_min_age_seconds=AGE_SECONDS, grace_hours=0, undo="off"
    )
    deleted: int = collect(config)["deleted"]["objects"]
    return deleted


def theirs(uri: str) -> int:
    found = collect_with_library(open_library(uri), utc_now() - timedelta(seconds=AGE_SECONDS), dry_run=False)
    return int(found.objects)


def beside(
    uri: str, bucket: TestBucket, pythons: dict[str, str], collector: str
) -> tuple[dict[str, int], int]:
    """Let all releases commit while a collector works; failures by release, and how much was deleted."""
    writers = {}
    for release, python in pythons.items():
        options = bucket.options
        keys = [options.access_key_id, options.secret_access_key]
        words = [str(options.endpoint_url), bucket.bucket, f"w{release}", str(COMMITS), *map(str, keys)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        writers[release] = subprocess.Popen(
            [python, "-c", _WRITER, *words], stdout=subprocess.PIPE, text=True, env=environment
        )
    deleted = 0
    while any(writer.poll() is None for writer in writers.values()):
        expire(uri, utc_now() - timedelta(seconds=AGE_SECONDS))
        deleted += (ours if collector == "ours" else theirs)(uri)
        time.sleep(EVERY_SECONDS)
    failures = {}
    for release, writer in writers.items():
        said = (writer.communicate()[0] or "").strip().splitlines()[-1].split("|")
        assert said[1] == str([COMMITS - 4, COMMITS - 3, COMMITS - 2, COMMITS - 1, COMMITS]), (release, said)
        failures[release] = int(said[0])
    return failures, deleted


@pytest.mark.parametrize("collector", ["theirs", "ours"])
def test_no_release_fails_beside_a_collection(
    pythons: dict[str, str], bucket: TestBucket, monkeypatch: pytest.MonkeyPatch, collector: str
) -> None:
    """Each release commits on a branch of its own, and reads back what it wrote; so do we."""
    for name, value in bucket.options.to_env().items():
        monkeypatch.setenv(name, value)
    uri = made(bucket, list(pythons))
    failures, deleted = beside(uri, bucket, pythons, collector)
    assert deleted > 0
    assert failures == dict.fromkeys(pythons, 0)
    for release in pythons:
        array = zarr_array(uri, f"w{release}")
        assert array == [COMMITS - 4, COMMITS - 3, COMMITS - 2, COMMITS - 1, COMMITS]


def zarr_array(uri: str, branch: str) -> list[int]:
    import zarr

    store = open_library(uri).readonly_session(branch).store
    return [int(value) for value in zarr.open_array(store, path="numbers", mode="r")[:]]
