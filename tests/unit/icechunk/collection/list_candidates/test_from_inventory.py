"""Clean runs with an inventory."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.collection.absent import AbsentConfig, AskResult, ask_for_absent
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    collect,
    list_candidates,
    mark,
    plan_collection,
    release_lease,
    run_steps,
)
from dredge.runs.clock import utc_now
from dredge.runs.tasks import LocalRunner
from tests.support.folder_store import LocalReader
from tests.support.icechunk import contents, counts_of, objects
from tests.support.icechunk_repo import Repo, change_number, flip_chunk_id
from tests.support.icechunk_tasks import Task, named, raw
from tests.support.index_parts import damaged

OLD = datetime(2020, 1, 1, tzinfo=UTC)


def inventory(repo: Repo, chunks: Iterable[str] | None = None, time: datetime = OLD, files: int = 2) -> str:
    folder = repo.folder.with_name("inventory")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    names = objects(repo.folder)["chunks"] if chunks is None else set(chunks)
    keys = [f"chunks/{name}" for name in sorted(names)] + ["chunks/README.txt", "snapshots/x", "elsewhere"]
    for number in range(files):
        share = keys[number::files]
        sizes = [_size(repo.folder / key) for key in share]
        times = pa.array([time] * len(share), pa.timestamp("us", tz="UTC"))
        whole = [f"{str(repo.folder).lstrip('/')}/{key}" for key in share]
        table = pa.table({"key": whole, "size": pa.array(sizes, pa.int64()), "last_modified": times})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return f"file://{folder}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 7


def run(repo: Repo, **changes: Any) -> dict[str, Any]:
    return collect(repo.config(**changes))


def test_run_on_an_inventory_deletes_what_one_that_lists_deletes_and_lists_no_chunks(
    repo: Repo, tmp_path: Path, stand_in: Any
) -> None:
    left = repo.collected(tmp_path)
    listed: list[str] = []

    def noted(honest: Any, store: LocalReader, prefix: str = "", *rest: Any, **more: Any) -> Any:
        listed.append(prefix)
        return honest(store, prefix, *rest, **more)

    uri = inventory(repo)
    stand_in(LocalReader.list, noted)
    report = run(repo, inventory=uri)
    assert "chunks/" not in listed
    assert "manifests/" in listed
    assert objects(repo.folder) == left
    assert report["mode"] == "clean"
    assert uri in dict(report["facts"])["Chunks from"]
    assert counts_of(report, "list_candidates")["chunks_foreign"] == 1
    change = repo.library.writable_session("main")
    change_number(change, 7)
    change.commit("seven")
    assert run(repo, mode="auto")["mode"] == "optimized", "the next run builds on it"
    assert contents(repo.library, branch="main")[0] == 7


def test_chunks_that_the_inventory_lacks_stay_and_live_ones_among_them_hold_nothing(v1: Repo) -> None:
    chunks = sorted(objects(v1.folder)["chunks"])
    orphan = "0" * 20
    (v1.folder / "chunks" / orphan).write_bytes(b"of a session that never committed")
    report = run(v1, inventory=inventory(v1, chunks[:1]))
    assert report["outcome"] == "success"
    assert orphan in objects(v1.folder)["chunks"]
    assert contents(v1.library, branch="main")[0] > 0
    assert counts_of(report, "list_candidates")["new_chunks_asked"] > 0
    assert orphan not in objects(v1.folder)["chunks"] or run(v1)["deleted"]["objects"] == 1


def test_damaged_part_of_the_index_does_not_stop_runs_on_an_inventory_for_good(v1: Repo) -> None:
    uri = inventory(v1, sorted(objects(v1.folder)["chunks"])[:1])
    run(v1, dry_run=True)
    for path in (v1.folder / "_dredge" / "index" / "parts").iterdir():
        path.write_bytes(damaged(path.read_bytes()))
    report = run(v1, inventory=uri)
    assert report["outcome"] == "success"
    assert counts_of(report, "mark")["manifests_read"] > 0
    assert counts_of(report, "list_candidates")["new_chunks_asked"] > 0
    assert contents(v1.library, branch="main")[0] > 0


def test_part_of_the_index_that_goes_bad_after_the_mark_stops_a_run_on_an_inventory(v1: Repo) -> None:
    uri = inventory(v1, sorted(objects(v1.folder)["chunks"])[:1])
    flip_chunk_id(v1.folder, random.Random(1))
    planned = v1.plan(inventory=uri)
    mark(planned, LocalRunner())
    for path in (v1.folder / "_dredge" / "index" / "parts").iterdir():
        path.write_bytes(damaged(path.read_bytes()))
    with pytest.raises(FormatError):
        list_candidates(planned, LocalRunner())


def test_live_chunk_that_the_store_lacks_too_holds_the_run(v1: Repo) -> None:
    uri = inventory(v1)
    flip_chunk_id(v1.folder, random.Random(1))
    before = objects(v1.folder)
    with pytest.raises(RefusedError, match="chunks_present"):
        run(v1, inventory=uri)
    assert objects(v1.folder) == before


def test_what_is_gone_or_younger_by_now_is_no_candidate(v1: Repo, tmp_path: Path) -> None:
    uri = inventory(v1, [*objects(v1.folder)["chunks"], "1" * 19 + "0"])
    young = min(objects(v1.folder)["chunks"] - v1.collected(tmp_path)["chunks"])
    run_report = run(v1, inventory=uri, unsafe_min_age_seconds=3600, dry_run=True)
    assert run_report["candidates"]["objects"] == 0, "the store says that all are young"
    then = utc_now().timestamp() - 7200
    for path in v1.folder.rglob("*"):
        if path.is_file() and path.name != young and "_dredge" not in str(path):
            os.utime(path, (then, then))
    before = objects(v1.folder)
    run(v1, inventory=uri, unsafe_min_age_seconds=3600)
    assert young in objects(v1.folder)["chunks"]
    assert objects(v1.folder)["chunks"] < before["chunks"]


def test_inventory_of_other_prefixes_is_refused(v1: Repo) -> None:
    uri = inventory(v1, [])
    table = pq.read_table(v1.folder.with_name("inventory") / "part-0.parquet")
    shutil.rmtree(v1.folder.with_name("inventory"))
    v1.folder.with_name("inventory").mkdir()
    pq.write_table(
        table.filter(pa.array([False] * table.num_rows)), v1.folder.with_name("inventory") / "a.parquet"
    )
    before = objects(v1.folder)
    with pytest.raises(RefusedError, match="other prefixes"):
        run(v1, inventory=uri)
    assert objects(v1.folder) == before


def test_inventory_without_times_is_refused(v1: Repo) -> None:
    uri = inventory(v1, files=1)
    path = v1.folder.with_name("inventory") / "part-0.parquet"
    table = pq.read_table(path)
    nothing = pa.nulls(table.num_rows, table["last_modified"].type)
    pq.write_table(table.set_column(2, "last_modified", nothing), path)
    before = objects(v1.folder)
    with pytest.raises(FormatError, match="time"):
        run(v1, inventory=uri)
    assert objects(v1.folder) == before


def test_cutoff_is_not_after_the_beginning_of_the_inventory_and_another_one_stops_the_run(v1: Repo) -> None:
    folder = v1.folder.with_name("s3")
    folder.mkdir()
    begun = utc_now() - timedelta(days=2)

    def write(columns: str) -> None:
        data = json.dumps(
            {
                "sourceBucket": "",
                "version": "2016-11-30",
                "creationTimestamp": str(int(begun.timestamp() * 1000)),
                "fileFormat": "CSV",
                "fileSchema": columns,
                "files": [{"key": "nothing.csv", "size": 0, "MD5checksum": "0" * 32}],
            }
        ).encode()
        (folder / "manifest.json").write_bytes(data)
        (folder / "manifest.checksum").write_text(hashlib.md5(data).hexdigest())

    write("Key, Size, LastModifiedDate")
    planned = Run.open(plan_collection(v1.config(inventory=f"file://{folder}/manifest.json")).run_uri)
    assert abs(planned.plan.cutoff - begun) < timedelta(seconds=1)
    release_lease(planned)
    write("Key, Size, LastModifiedDate, ETag")
    with pytest.raises(RefusedError):
        run_steps(planned, LocalRunner())


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def ask(task: Task, said: dict[str, list[bytes]], absent: Sequence[int], live: Sequence[int]) -> AskResult:
    half = len(absent) // 2
    parts = [task.ids("a/0.ids", absent[:half]), task.ids("a/1.ids", absent[half:])]
    config = AbsentConfig(absent=parts, live=task.ids("mark/manifests.ids", live))
    return ask_for_absent.body(task.run, config, task.indexed("part", said))


def test_live_manifest_that_is_gone_or_names_less_than_was_counted_stops_the_run(task: Task) -> None:
    manifest = task.manifest(1, [raw(5), raw(5, 1), raw(6)])
    with pytest.raises(FormatError):
        ask(task, {manifest: [raw(5), raw(7)]}, absent=[5, 7], live=[1])
    assert ask(task, {manifest: [raw(5), raw(7)]}, absent=[5, 6], live=[1]).asked == 2
    with pytest.raises(FormatError, match=f"manifests/{named(2)}"):
        ask(task, {named(2): [raw(5)]}, absent=[5], live=[2])
