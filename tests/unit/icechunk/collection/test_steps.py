"""A whole collection deletes what nothing reaches, what the library would delete, and reports it."""

from __future__ import annotations

import ast
import pickle
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection import deleting, steps
from dredge.icechunk.collection.config import CollectConfig, Tuning
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.mark import chunks, snapshots
from dredge.icechunk.collection.steps import collect, list_candidates, mark
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk import (
    OBJECT_FOLDERS,
    build,
    contents,
    counts_of,
    graph_of,
    local_storage,
    objects,
    quiet,
    s3_storage,
)
from tests.support.icechunk_repo import SAMPLE, Repo, expire_middle
from tests.support.objectstore import TestBucket, moto_s3


def read_all(folder: Path) -> dict[str, list[int]]:
    library = quiet().Repository.open(local_storage(folder))
    found = {name: contents(library, branch=name) for name in library.list_branches()}
    return found | {name: contents(library, tag=name) for name in library.list_tags()}


def test_exactly_the_librarys_garbage_goes_and_every_ref_reads_back(repo: Repo, tmp_path: Path) -> None:
    before = read_all(repo.folder)
    shutil.copytree(repo.folder, tmp_path / "theirs")
    cutoff = datetime.now(UTC) + timedelta(seconds=5)
    theirs = quiet().Repository.open(local_storage(tmp_path / "theirs")).garbage_collect(cutoff)
    report = collect(repo.config())
    assert objects(repo.folder) == objects(tmp_path / "theirs")
    assert report["outcome"] == "success"
    assert report["deleted"] == {
        "objects": theirs.snapshots_deleted
        + theirs.manifests_deleted
        + theirs.chunks_deleted
        + theirs.transaction_logs_deleted,
        "bytes": theirs.bytes_deleted,
    }
    assert read_all(repo.folder) == before
    assert collect(repo.config())["deleted"]["objects"] == 0
    # The library goes on working beside what Dredge keeps in the repository.
    assert quiet().Repository.open(local_storage(repo.folder)).garbage_collect(cutoff).snapshots_deleted == 0


def test_dry_run_is_the_default_says_what_would_go_and_deletes_nothing(repo: Repo) -> None:
    before = objects(repo.folder)
    report = collect(CollectConfig(uri=repo.uri, unsafe_min_age_seconds=0, unsafe_grace_seconds=0))
    assert objects(repo.folder) == before
    assert report["outcome"] == "dry_run"
    assert report["candidates"]["objects"] in (15, 20)  # spec 2 keeps the logs of expired ancestors
    assert counts_of(report, "bulk_delete")["would_delete_objects"] == report["candidates"]["objects"]


def test_two_processes_share_the_work(repo: Repo) -> None:
    collect(repo.config(dry_run=True))  # the index is there, so that few processes must be started
    run = repo.plan()
    runner = LocalRunner(processes=2)
    mark(run, LocalRunner())
    found = list_candidates(run, runner)
    assert found.counts["snapshots_candidates_objects"] == 5


def test_partition_functions_are_plain_and_can_be_sent() -> None:
    for function in (
        snapshots.read_snapshots,
        chunks.read_manifests,
        chunks.shard_chunks,
        listing.list_range,
        deleting.delete_parts,
    ):
        assert pickle.loads(pickle.dumps(function)) is function


def test_only_the_sweep_is_handed_a_deleter() -> None:
    for path in Path(steps.__file__).parents[1].rglob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        # `own_files.py` deletes what Dredge wrote itself.
        opens = {"open_deleter", "OwnFilesDeleter"} & names
        assert bool(opens) == (path.name in ("deleting.py", "own_files.py"))


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as found:
        yield found


@pytest.mark.parametrize("spec", [pytest.param(1, marks=pytest.mark.long), 2])
def test_repository_on_s3_is_collected_in_ranges(
    bucket: TestBucket, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.options.to_env().items():
        monkeypatch.setenv(name, value)
    storage = s3_storage(bucket.options, bucket.bucket, f"spec{spec}")
    ids = build(storage, graph_of(SAMPLE), spec)
    uri = f"{bucket.uri}/spec{spec}"
    expire_middle(uri, ids)
    bucket.put(f"spec{spec}/chunks/README.txt")
    library = quiet().Repository.open(storage)
    before = {name: contents(library, branch=name) for name in library.list_branches()}
    time.sleep(2.1)  # this store keeps whole seconds, which count as up to a second later
    theirs = library.garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True)
    settings = {
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
        "tuning": Tuning(keys_per_task=20),
    }
    report = collect(CollectConfig(uri=uri, **settings))
    assert report["outcome"] == "success"
    figures = {kind: report["kinds"][kind].get("deleted_objects", 0) for kind in OBJECT_FOLDERS}
    assert figures == {
        "snapshots": theirs.snapshots_deleted,
        "transactions": theirs.transaction_logs_deleted,
        "manifests": theirs.manifests_deleted,
        "chunks": theirs.chunks_deleted,
    }
    assert report["deleted"]["bytes"] == theirs.bytes_deleted
    reopened = quiet().Repository.open(storage)
    assert {name: contents(reopened, branch=name) for name in reopened.list_branches()} == before
    assert f"spec{spec}/chunks/README.txt" in bucket.keys(f"spec{spec}/chunks/")
    assert (
        reopened.garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True).chunks_deleted == 0
    )


def test_read_only_repository_is_refused(tmp_path: Path) -> None:  # E16
    icechunk = quiet()
    library = icechunk.Repository.create(local_storage(tmp_path), spec_version=2)
    library.set_status(icechunk.RepoStatus(availability=icechunk.RepoAvailability.read_only))
    with pytest.raises(RefusedError, match="read-only"):
        collect(Repo(tmp_path).config())


def test_collection_of_these_repositories_deletes_without_the_damage(v1: Repo) -> None:
    assert collect(v1.config())["deleted"]["objects"] == 20
