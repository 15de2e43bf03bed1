"""Expirations and collections beside writers of every line of releases of the library: none of them fails more often
than beside the library's own, and all that was committed reads back.

Marked long: releases 0.2 and 1.1 get environments of their own. Spec 1 is what all of them write;
spec 2 and amends are of the release that Dredge uses.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import icechunk
import pytest

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.library import expire_with_library, open_library
from dredge.runs.clock import utc_now
from tests.support import icechunk_writer
from tests.support.icechunk import deleted_of, quiet, s3_storage
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_writer import CELLS
from tests.support.objectstore import TestBucket, make_bucket, moto_server

pytestmark = pytest.mark.long

RELEASES = {"0.2.9": "zarr<3.2", "1.1.21": "zarr<3.5"}
OURS = "ours"
WRITERS = {1: ["0.2.9", "1.1.21", OURS], 2: [OURS, OURS]}
RUNS, RUNS_MAX = 4, 100
SECONDS = 30
"""So many runs, and so long at least, writers go on."""
AGE = timedelta(seconds=15)
EXPIRED = timedelta(seconds=8)
"""Longer than a session of a writer, which is one write. One that took longer proves nothing."""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {OURS: sys.executable}
    for release, zarr in RELEASES.items():
        folder = tmp_path_factory.mktemp("releases") / release
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        found[release] = str(folder / "bin" / "python")
        install = [found[release], "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"icechunk=={release}", zarr], check=True)
    return found


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestBucket]:
    with moto_server() as options:
        made = make_bucket(options)
        for name, value in options.to_env().items():
            monkeypatch.setenv(name, value)
        yield made


def make_repository(bucket: TestBucket, spec: int, names: list[str]) -> str:
    import zarr

    config = quiet().RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    repository = quiet().Repository.create(
        s3_storage(bucket.options, bucket.bucket, "repo"), config=config, spec_version=spec
    )
    session = repository.writable_session("main")
    for name in names:
        for place in ("own", "shared"):
            zarr.create_array(
                session.store,
                name=f"{name}-{place}",
                shape=(CELLS,),
                chunks=(1,),
                dtype="i8",
                compressors=None,
            )
    start = session.commit("arrays")
    for name in ["shared", *names]:
        repository.create_branch(name, start)
    return f"s3://{bucket.bucket}/repo"


def start(python: str, bucket: TestBucket, name: str, amends: bool, stop: Path) -> subprocess.Popen[str]:
    asked = {
        "endpoint_url": bucket.options.endpoint_url,
        "bucket": bucket.bucket,
        "prefix": "repo",
        "access_key": bucket.options.access_key_id,
        "secret_key": bucket.options.secret_access_key,
        "name": name,
        "stop": str(stop),
        "amends": amends,
        "session_seconds_max": EXPIRED.total_seconds() / 2,
    }
    left_out = ("PYTHONPATH", "PYTHONPYCACHEPREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    # Beside the program lies a module of the name of the library, so its folder must not be looked into.
    program = [python, "-P", str(icechunk_writer.__file__), json.dumps(asked)]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def ours(uri: str) -> int:
    expire(uri, utc_now() - EXPIRED)
    config = CollectConfig(
        uri=uri,
        dry_run=False,
        unsafe_min_age_seconds=AGE.total_seconds(),
        unsafe_grace_seconds=0,
        undo="off",
        max_delete_percent=None,
    )
    deleted: int = collect(config)["deleted"]["objects"]
    return deleted


def theirs(uri: str) -> int:
    repository = open_library(uri)
    expire_with_library(repository, utc_now() - EXPIRED, delete_branches=False, delete_tags=False)
    try:
        return sum(deleted_of(repository.garbage_collect(utc_now() - AGE)).values())
    except icechunk.ConflictError:  # it gives way to the writers
        return 0


def beside(
    bucket: TestBucket, uri: str, spec: int, pythons: Mapping[str, str], collector: Any, stop: Path
) -> dict[str, dict[str, Any]]:
    names = {f"w{number}": release for number, release in enumerate(WRITERS[spec])}
    writers = {
        name: start(pythons[release], bucket, name, spec == 2, stop) for name, release in names.items()
    }
    deleted, runs, until = 0, 0, time.monotonic() + SECONDS
    try:
        while runs < RUNS or time.monotonic() < until or not (deleted or runs >= RUNS_MAX):
            deleted += collector(uri)
            runs += 1
    finally:
        stop.touch()
    said = {name: _said(writer) for name, writer in writers.items()}
    print(f"spec {spec}, {collector.__name__}: {runs} runs deleted {deleted} objects beside", said)
    assert deleted, "nothing was collected beside the writers"
    for name, line in said.items():
        assert line["commits"], (name, line)
    return said


def _said(writer: subprocess.Popen[str]) -> dict[str, Any]:
    told, complaints = writer.communicate()
    assert writer.returncode == 0, complaints[-3000:]
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def read_back(uri: str, name: str) -> dict[str, list[int]]:
    import zarr

    found = {}
    for place, branch in (("own", name), ("shared", "shared")):
        store = open_library(uri).readonly_session(branch).store
        found[place] = [int(value) for value in zarr.open_array(store, path=f"{name}-{place}", mode="r")[:]]
    return found


@pytest.mark.parametrize("spec", [1, 2])
def test_writers_of_all_releases_fail_no_more_often_than_beside_the_librarys_collection(
    spec: int, pythons: dict[str, str], bucket: TestBucket, tmp_path: Path
) -> None:
    names = [f"w{number}" for number in range(len(WRITERS[spec]))]
    failures: dict[str, dict[str, int]] = {}
    for collector in (theirs, ours):
        for key in bucket.keys():  # noqa: SIM118
            bucket.client.delete_object(Bucket=bucket.bucket, Key=key)
        uri = make_repository(bucket, spec, names)
        said = beside(bucket, uri, spec, pythons, collector, tmp_path / collector.__name__)
        failures[collector.__name__] = {name: len(line["failed"]) for name, line in said.items()}
        for name, line in said.items():
            if collector is ours or not line["failed"]:
                assert read_back(uri, name) == line["expected"], (collector.__name__, name, line)
    for name in names:
        assert failures["ours"][name] <= failures["theirs"][name], failures
