"""Collection deletes what nothing reaches, what the library would delete, and reports it."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.icechunk.collection import index, listing, marking, sets, sweeping
from dredge.icechunk.collection.config import CollectConfig, Tuning
from dredge.icechunk.collection.steps import Context, collect, plan_collection
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.repo_info import parse_repo_info
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.icechunk import (
    OBJECT_FOLDERS,
    ROOT_ID,
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
from tests.support.objectstore import TestBucket, moto_s3

SAMPLE = scenarios()[0]


def config(folder: Path, **changes: Any) -> CollectConfig:
    """A run that deletes at once; what the tests of safety change back."""
    settings = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0} | changes
    return CollectConfig(uri=f"file://{folder}", **settings)


def expire_sample(uri: str, ids: dict[str, str], **where: Any) -> None:
    history = read_history(open_reader(uri, where.get("options")))
    middle = (history.snapshots[ids["7"]].flushed_at + history.snapshots[ids["8"]].flushed_at) // 2
    expire(uri, instant(middle), **where)


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("sample") / "repo"
    ids = build(local_storage(folder), graph_of(SAMPLE), request.param)
    expire_sample(f"file://{folder}", ids)
    return folder, ids


@pytest.fixture
def sample(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    """The design document's history, expired: 1, 2, 4, 6 and 7 are garbage."""
    shutil.copytree(made[0], tmp_path / "repo")
    return tmp_path / "repo"


def read_all(folder: Path) -> dict[str, list[int]]:
    library = quiet().Repository.open(local_storage(folder))
    found = {name: contents(library, branch=name) for name in library.list_branches()}
    return found | {name: contents(library, tag=name) for name in library.list_tags()}


def test_exactly_the_librarys_garbage_goes_and_every_ref_reads_back(sample: Path, tmp_path: Path) -> None:
    before = read_all(sample)
    shutil.copytree(sample, tmp_path / "theirs")
    cutoff = datetime.now(UTC) + timedelta(seconds=5)
    theirs = quiet().Repository.open(local_storage(tmp_path / "theirs")).garbage_collect(cutoff)
    report = collect(config(sample))
    assert objects(sample) == objects(tmp_path / "theirs")
    assert report["outcome"] == "success"
    assert report["deleted"] == {
        "objects": theirs.snapshots_deleted
        + theirs.manifests_deleted
        + theirs.chunks_deleted
        + theirs.transaction_logs_deleted,
        "bytes": theirs.bytes_deleted,
    }
    assert read_all(sample) == before
    assert collect(config(sample))["deleted"]["objects"] == 0
    # The library goes on working beside what Dredge keeps in the repository.
    assert quiet().Repository.open(local_storage(sample)).garbage_collect(cutoff).snapshots_deleted == 0


def test_dry_run_is_the_default_says_what_would_go_and_deletes_nothing(sample: Path) -> None:
    before = objects(sample)
    report = collect(CollectConfig(uri=f"file://{sample}", unsafe_min_age_seconds=0, grace_hours=0))
    assert objects(sample) == before
    assert report["outcome"] == "dry_run"
    assert report["candidates"]["objects"] in (15, 20)  # spec 2 keeps the logs of expired ancestors
    assert counts_of(report, "ledger")["would_delete_objects"] == report["candidates"]["objects"]


def test_second_run_reads_no_manifest_again(sample: Path) -> None:
    first = collect(config(sample, dry_run=True))
    assert counts_of(first, "mark")["manifests_read"] == 9
    second = collect(config(sample, dry_run=True))
    assert counts_of(second, "mark")["manifests_read"] == 0
    assert second["kinds"] == first["kinds"]
    session = quiet().Repository.open(local_storage(sample)).writable_session("main")
    import zarr

    zarr.open_array(session.store, path="numbers")[0] = 99
    session.commit("new")
    third = collect(config(sample, dry_run=True))
    assert counts_of(third, "mark")["manifests_read"] == 1


def test_damaged_index_is_read_again_from_the_repository(sample: Path) -> None:
    good = collect(config(sample, dry_run=True))
    for path in (sample / "_dredge" / "index" / "parts").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    again = collect(config(sample, dry_run=True))
    assert again["kinds"] == good["kinds"]
    assert counts_of(again, "mark")["manifests_read"] == 9
    for path in (sample / "_dredge" / "index" / "heads").iterdir():
        path.write_bytes(b"{}")
    assert collect(config(sample, dry_run=True))["kinds"] == good["kinds"]


def test_small_shards_and_many_tasks_find_the_same(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = collect(config(sample, dry_run=True))
    shutil.rmtree(sample / "_dredge")
    tuning = Tuning(
        snapshots_a_task=2, refs_a_task=1, ids_a_shard=4, keys_a_task=1, candidate_rows=2, delete_keys=1
    )
    cut_everything(monkeypatch)
    small = collect(config(sample, dry_run=True, tuning=tuning))
    assert small["kinds"] == whole["kinds"]
    assert collect(config(sample, tuning=tuning))["deleted"]["objects"] == whole["candidates"]["objects"]


def cut_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut local folders into ranges too, as other stores are."""
    from itertools import pairwise

    from dredge.icechunk.ids import ALPHABET

    cuts = ["", *sorted(one + two for one in ALPHABET for two in "0G")[1:], ""]
    assert len(list(pairwise(cuts))) == 64
    monkeypatch.setattr(listing, "_cuts", lambda context, expected: cuts)


def test_names_equal_to_a_cut_are_listed_by_exactly_one_range(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "A", "AG", "AG0", "ZG", "a", "_"):
        (sample / "chunks" / name).write_bytes(b"")
    cut_everything(monkeypatch)
    report = collect(config(sample, dry_run=True))
    assert report["kinds"]["chunks"]["foreign"] == 7


def test_two_processes_share_the_work(sample: Path, made: tuple[Path, dict[str, str]]) -> None:
    collect(config(sample, dry_run=True))  # the index is there, so that few processes must be started
    context = Context.open(plan_collection(config(sample)).run_uri)
    runner = LocalRunner(processes=2)
    marking.mark(context, LocalRunner())
    found = listing.find_candidates(context, runner)
    assert found.counts["snapshots_candidates_objects"] == 5


def test_partition_functions_are_plain_and_can_be_sent() -> None:
    for function in (
        marking.read_snapshots,
        marking.read_manifests,
        marking.shard_chunks,
        listing.list_range,
    ):
        assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(sweeping.delete_parts)) is sweeping.delete_parts


def test_only_the_sweep_is_handed_a_deleter() -> None:
    for path in Path(sweeping.__file__).parents[1].rglob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert ("open_deleter" in names) == (path.name == "sweeping.py")


def test_another_run_holds_the_repository(sample: Path) -> None:
    plan_collection(config(sample))
    before = objects(sample)
    with pytest.raises(LeaseHeldError):
        collect(config(sample))
    assert objects(sample) == before


def test_plan_holds_no_secrets_and_round_trips(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "correct-horse")
    plan = plan_collection(config(sample, max_delete_percent=50.0))
    context = Context.open(plan.run_uri)
    assert context.plan == plan
    assert "correct-horse" not in json.dumps(plan.to_json())


@pytest.mark.parametrize(
    "wrong",
    [{"min_age_hours": 1, "unsafe_min_age_seconds": None}, {"grace_hours": -1}, {"max_delete_objects": -1}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        config(tmp_path, **wrong)
    with pytest.raises(ConfigError, match=r"unknown setting tuning\.fast"):
        CollectConfig.from_json({"uri": "x", "tuning": {"fast": 1}})


def test_machine_with_a_wrong_clock_is_refused(sample: Path) -> None:
    with pytest.raises(RefusedError, match="clock differs"):
        plan_collection(config(sample), clock=lambda: datetime.now(UTC) - timedelta(hours=1))


def test_sets_split_by_ranges_and_unite_again() -> None:
    rng = np.random.default_rng(3)
    ids = np.unique(rng.integers(0, 1 << 63, 1000, dtype=np.uint64) * np.uint64(2))
    for bits in (0, 1, 5, 10):
        pieces = sets.shards(ids, bits)
        assert len(pieces) == 1 << bits
        assert sets.unite(pieces).tolist() == ids.tolist()
        for shard, piece in enumerate(pieces):
            assert all(int(number) >> (64 - bits) == shard for number in piece) or bits == 0
    assert sets.contains(ids, ids).all()
    assert not sets.contains(ids, ids + np.uint64(1)).any()
    assert not sets.contains(sets.NONE, ids).any()
    assert len(sets.unite([])) == 0


def test_index_rows_round_trip(sample: Path) -> None:
    from dredge.storage import open_writer

    state = open_writer(f"file://{sample}/_dredge")
    rows = [("A" * 19 + "0", np.array([1, 5], np.uint64)), (ROOT_ID, np.empty(0, np.uint64))]
    part = index.write_manifest_rows(state, "one", rows)
    read = index.read_manifest_rows(state, part)
    assert [(name, ids.tolist()) for name, ids in read] == [(name, ids.tolist()) for name, ids in rows]


def test_old_copies_of_the_repo_info_go_and_the_operations_log_stays_whole(tmp_path: Path) -> None:
    icechunk = quiet()
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 5
    library = icechunk.Repository.create(local_storage(tmp_path), config=settings, spec_version=2)
    for number in range(30):
        library.writable_session("main").commit(str(number), allow_empty=True)
    (tmp_path / "overwritten" / "notes.txt").write_bytes(b"")
    before = {path.name for path in (tmp_path / "overwritten").iterdir()}
    report = collect(config(tmp_path))
    assert "overwritten" not in report["kinds"]
    young = collect(config(tmp_path, overwritten_min_age_hours=1))
    assert young["kinds"]["overwritten"]["candidates_objects"] == 0
    report = collect(config(tmp_path, overwritten_min_age_hours=0))
    left = {path.name for path in (tmp_path / "overwritten").iterdir()}
    info = parse_repo_info((tmp_path / "repo").read_bytes())
    assert report["kinds"]["overwritten"]["deleted_objects"] == len(before - left) > 15
    assert {update.backup for update in info.updates[1:]} <= left
    assert "notes.txt" in left
    reopened = icechunk.Repository.open(local_storage(tmp_path), config=settings)
    assert len(list(reopened.ops_log())) == 31
    assert len(list(reopened.ancestry(branch="main"))) == 31
    # The chain moves with every change, so the log shortens then; it must not fail.
    reopened.writable_session("main").commit("more", allow_empty=True)
    assert 10 <= len(list(icechunk.Repository.open(local_storage(tmp_path), config=settings).ops_log())) < 32
    assert collect(config(tmp_path, overwritten_min_age_hours=0))["outcome"] == "success"


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as found:
        yield found


@pytest.mark.parametrize("spec", [1, 2])
def test_repository_on_s3_is_collected_in_ranges(
    bucket: TestBucket, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.options.to_env().items():
        monkeypatch.setenv(name, value)
    storage = s3_storage(bucket.options, bucket.bucket, f"spec{spec}")
    ids = build(storage, graph_of(SAMPLE), spec)
    uri = f"{bucket.uri}/spec{spec}"
    expire_sample(uri, ids)
    bucket.put(f"spec{spec}/chunks/README.txt")
    library = quiet().Repository.open(storage)
    before = {name: contents(library, branch=name) for name in library.list_branches()}
    time.sleep(2.1)  # this store keeps whole seconds, which count as up to a second later
    theirs = library.garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True)
    settings = {
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "grace_hours": 0,
        "tuning": Tuning(keys_a_task=20),
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
