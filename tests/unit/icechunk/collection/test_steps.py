"""Whole collections, their previews, and their verification."""

import ast
import pickle
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.icechunk.collection import deleting, steps
from dredge.icechunk.collection.config import CollectConfig, Tuning
from dredge.icechunk.collection.list_candidates import listing
from dredge.icechunk.collection.mark import chunks, step
from dredge.icechunk.collection.outputs import CheckLimitsOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import bulk_delete, collect, list_candidates, mark, verify
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.runs.payload import from_json, to_json
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
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
    scenarios,
)
from tests.support.icechunk_expiring import expire
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
        step.read_snapshots,
        chunks.read_manifests,
        chunks.count_chunks,
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
        # `own_files.py` deletes own files, `restore.py` the copies that a restored expiration left.
        opens = {"open_deleter", "OwnFilesDeleter"} & names
        assert bool(opens) == (path.name in ("deleting.py", "own_files.py", "restore.py"))


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


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def expiring(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Expiration]:
    folder = tmp_path / "repo"
    ids = build(local_storage(folder), graph_of(scenarios()[0]), request.param)
    times = read_history(open_reader(f"file://{folder}")).snapshots
    middle = instant((times[ids["7"]].flushed_at + times[ids["8"]].flushed_at) // 2)
    return folder, Expiration(threshold=middle.isoformat(), delete_expired_tags=True)


def config(folder: Path, **changes: Any) -> CollectConfig:
    settings = {"unsafe_min_age_seconds": 0, "unsafe_grace_seconds": 0, "max_delete_percent": None} | changes
    return CollectConfig(uri=f"file://{folder}", **settings)


def figures(report: dict[str, Any], what: str) -> dict[str, tuple[int, int]]:
    # The size of a snapshot file changes by a few bytes when its expiration edits it before its tag goes.
    return {
        kind: (found.get(f"{what}_objects", 0), found.get(f"{what}_bytes", 0) if kind != "snapshots" else 0)
        for kind, found in report["kinds"].items()
    }


def test_what_the_report_says_is_what_goes_after_the_expiration(
    expiring: tuple[Path, Expiration],
) -> None:
    folder, planned = expiring
    before, history = objects(folder), read_history(open_reader(f"file://{folder}")).digest
    report = collect(config(folder, after=planned))
    assert objects(folder) == before
    assert read_history(open_reader(f"file://{folder}")).digest == history
    assert report["outcome"] == "dry_run"
    assert report["headline"].startswith("After the planned expiration, ")
    assert report["candidates"]["objects"] > 20
    expired = expire(f"file://{folder}", instant_of(planned), delete_expired_tags=True)
    (mark,) = (step for step in report["steps"] if step["step"] == "mark")
    assert mark["counts"]["planned_released_snapshots"] == len(expired.plan.before.snapshots) - len(
        expired.plan.after.snapshots
    )
    done = collect(config(folder, dry_run=False))
    assert figures(done, "deleted") == figures(report, "candidates")
    assert figures(done, "young") == figures(report, "young")


def instant_of(planned: Expiration) -> Any:
    return datetime.fromisoformat(planned.threshold)


def test_preview_leaves_no_list_because_what_it_found_is_still_reachable(
    expiring: tuple[Path, Expiration],
) -> None:
    folder, planned = expiring
    report = collect(config(folder, after=planned, unsafe_grace_seconds=None))
    assert report["candidates"] == collect(config(folder, after=planned))["candidates"], "nor does it count"
    assert not (folder / "_dredge" / "pending" / "current.json").exists()
    assert report["warnings"]


def test_run_that_deletes_takes_no_expiration_for_applied(expiring: tuple[Path, Expiration]) -> None:
    with pytest.raises(ConfigError, match="after"):
        config(expiring[0], after=expiring[1], dry_run=False)
    assert from_json(CollectConfig, to_json(config(expiring[0], after=expiring[1]))) == config(
        expiring[0], after=expiring[1]
    )


HERE = LocalRunner()


@pytest.fixture
def swept(v1: Repo, tmp_path: Path) -> Run:
    shutil.copytree(v1.folder, tmp_path / "before")
    run = v1.guarded()
    bulk_delete(run, HERE)
    return run


def canaries_of(run: Run) -> list[str]:
    summary = run.folder.read_summary(CheckLimitsOutput.STEP)
    assert summary is not None
    return CheckLimitsOutput.of(summary).read_canaries(run.folder)


def test_sound_repository_is_verified_and_the_figures_say_how_much_was_looked_at(
    v1: Repo, swept: Run
) -> None:
    summary = verify(swept)
    nodes = read_history(open_reader(v1.uri)).snapshots
    manifests = {info.id for node in nodes for info in v1.library.list_manifest_files(node)}
    assert summary.status == "success"
    assert summary.counts == {
        "live_snapshots": len(nodes),
        "live_manifests": len(manifests),
        "canaries": len(canaries_of(swept)),
        "deleted_sample": 20,
    }


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_live_file_that_is_gone_is_told(v1: Repo, swept: Run, kind: str) -> None:
    node = v1.ids["10"]
    name = node if kind == "snapshots" else next(iter(v1.library.list_manifest_files(node))).id
    (v1.folder / kind / name).unlink()
    with pytest.raises(FormatError, match=kind):
        verify(swept)
    incomplete = swept.folder.read_incomplete("verify")
    assert incomplete is not None
    assert incomplete.status == "partial"


def test_object_that_refs_need_and_that_was_there_before_the_sweep_is_missed(v1: Repo, swept: Run) -> None:
    chunk = next(key for key in canaries_of(swept) if key.startswith("chunks/"))
    (v1.folder / chunk).unlink()
    with pytest.raises(FormatError, match=chunk):
        verify(swept)


def test_deleted_object_that_is_still_there_is_told(v1: Repo, swept: Run, tmp_path: Path) -> None:
    name = min(objects(tmp_path / "before")["chunks"] - objects(v1.folder)["chunks"])
    shutil.copy(tmp_path / "before" / "chunks" / name, v1.folder / "chunks" / name)
    with pytest.raises(FormatError, match=f"chunks/{name}"):
        verify(swept)
