"""Garbage among the chunks without a listing."""

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import absent
from dredge.icechunk.collection.absent import AskResult, AskTask, ask_for_chunks
from dredge.icechunk.collection.list_candidates import chunks
from dredge.icechunk.collection.list_candidates.chunks import (
    NameResult,
    _beyond_manifests,
    write_by_shard,
)
from dredge.icechunk.collection.list_candidates.listing import unproved
from dredge.runs.run import StepRecord
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from dredge.storage.listing_schema import LISTING_SCHEMA
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_tasks import OLD, Task, named, raw

HERE = LocalRunner()


def addresses(*numbers: int) -> pa.Table:
    keys = [f"chunks/{named(number)}" for number in numbers]
    return pa.table({"address": pa.array(keys, pa.string()), "size": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize(
    ("dead", "left"), [((), [5, 6, 7]), (((6, 9),), [5, 7]), (((6,), (5, 8)), [7]), (((5, 6, 7),), [])]
)
def test_what_dead_manifests_name_is_not_missed(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, dead: Sequence[Sequence[int]], left: list[int]
) -> None:
    run = v1.plan()
    attempt = StepTry.claim(run.folder.writer, "list_candidates")
    results = []
    with run.folder.writing(attempt):
        for name, numbers in enumerate(dead):
            count, keys = len(numbers), [f"chunks/{named(number)}" for number in numbers]
            rows = pa.table([keys, [1] * count, [OLD] * count, [None] * count], schema=LISTING_SCHEMA)
            shards = write_by_shard(run.folder, 0, f"x{name}", rows)
            results.append(NameResult(shards=shards, unread=[]))
    monkeypatch.setattr(chunks, "of_dead", lambda *_: results)
    record = StepRecord({}, attempt)
    for tables in ([addresses(5, 6, 7)], [addresses(), addresses(5), addresses(6, 7)]):
        found = _beyond_manifests(run, HERE, record, tables)
        assert found["address"].to_pylist() == [f"chunks/{named(number)}" for number in left]
    for nothing in ([], [addresses()]):
        assert _beyond_manifests(run, HERE, record, nothing).num_rows == 0


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def tag_of(task: Task, manifest: str) -> str:
    return hashlib.md5(task.store.objects[f"repo/manifests/{manifest}"][0]).hexdigest()


def ask(
    task: Task,
    manifests: dict[str, str],
    said: dict[str, list[bytes]],
    *known: int,
    proved: list[str] | None = None,
) -> AskResult:
    config = task.counted(*known)
    given = AskTask(number=0, index_part=task.indexed("new", said), unproved=manifests, proved=proved or [])
    return ask_for_chunks.body(task.run, config, given)


def answer(found: AskResult) -> tuple[int, int, list[str]]:
    return found.asked, found.missing, found.absent


def test_only_a_digest_that_the_store_has_as_well_proves_what_was_read() -> None:
    tags = {"A": "a", "B": "b", "C": None, "D": "", "E": "e", "F": "f"}
    listed = [[f"manifests/{name}" for name in tags], [1] * 6, [OLD] * 6, [*tags.values()]]
    page = pa.RecordBatch.from_pydict(dict(zip(LISTING_SCHEMA.names, listed, strict=True)), LISTING_SCHEMA)
    read = {"A": ["a", "p"], "B": ["x", "q"], "C": ["c", "p"], "D": ["", "r"], "E": ["", "p"], "G": ["", "p"]}
    assert unproved(page, "manifests/", read) == {
        "B": ["q", "b"],
        "C": ["p", ""],
        "D": ["r", ""],
        "E": ["p", "e"],
    }


def test_store_is_asked_for_every_new_chunk_of_manifests_without_a_proof(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        task.manifest(1, [raw(5), raw(6), raw(7), raw(8, 1)]): [raw(5), raw(6), raw(7), raw(8)],
        task.manifest(2, [raw(7), raw(9)]): [raw(7), raw(9)],
    }
    task.put(f"chunks/{named(6)}")
    task.put(f"chunks/{named(8)}")  # another one of the same first bits
    found = ask(task, dict.fromkeys(said, ""), said, 5)
    assert answer(found) == (4, 3, [f"{number:016x}" for number in (7, 8, 9)])
    monkeypatch.setattr(absent, "ABSENT_MAX", 2)
    few = ask(task, dict.fromkeys(said, ""), said, 5)
    assert (few.missing, few.absent) == (3, [f"{number:016x}" for number in (7, 8)])


@pytest.mark.parametrize("said", [[5], [5, 7], [5, 6, 7], []])
def test_manifest_that_does_not_name_what_was_counted_stops_the_run(task: Task, said: list[int]) -> None:
    manifest = task.manifest(1, [raw(5), raw(6)])
    with pytest.raises(FormatError):
        ask(task, {manifest: tag_of(task, manifest)}, {manifest: [raw(number) for number in said]})


def test_live_manifest_that_is_missing_stops_the_run(task: Task) -> None:
    with pytest.raises(FormatError, match=f"manifests/{named(1)}"):
        ask(task, {named(1): ""}, {named(1): [raw(5)]})
