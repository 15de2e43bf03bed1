"""Chunks that dead manifests name: each once, and a candidate only where no live manifest names it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.list_candidates import named as named_module
from dredge.icechunk.collection.list_candidates.candidates import write_candidates
from dredge.icechunk.collection.list_candidates.named import (
    NAMED,
    NameConfig,
    NameTask,
    SelectConfig,
    SelectResult,
    SelectTask,
    name_chunks,
    once,
    select_dead,
    still_there,
    write_by_shard,
)
from dredge.runs.summary import PartInfo
from dredge.storage import LISTING_SCHEMA, open_reader
from tests.support.icechunk_tasks import CUTOFF, OLD, Task, named, raw
from tests.support.memory_store import MemoryReader

FAR = 1 << 63
EARLIER = OLD - timedelta(days=1)
SIZE = 1000
"""Of each chunk, as the manifests of the tests say it."""


@pytest.fixture
def task() -> Task:
    return Task("list_candidates")


def rows(*found: tuple[int, int, int, datetime]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=NAMED)


def candidates(task: Task, kind: str, listed: Sequence[tuple[str, int, datetime]]) -> PartInfo:
    columns = [list(column) for column in zip(*listed, strict=True)]
    table = pa.table([*columns, pa.nulls(len(listed), pa.string())], schema=LISTING_SCHEMA)
    (part,) = write_candidates(task.folder, kind, 1, [table], 100)
    return part


def name_task(part: PartInfo, first: int = 0, count: int = 100) -> NameTask:
    return NameTask(name="named-00000", part=part, first=first, count=count)


def read(task: Task, shards: dict[int, PartInfo]) -> dict[int, list[tuple[Any, ...]]]:
    tables = {shard: task.folder.read_part(part) for shard, part in shards.items()}
    return {shard: [tuple(row.values()) for row in table.to_pylist()] for shard, table in tables.items()}


def test_each_chunk_of_some_rows_is_given_once_with_the_first_time() -> None:
    given = rows(
        (5, 0, 2, OLD),
        (5, 0, 3, EARLIER),
        (5, 1, 4, OLD),
        (5, 1, 5, EARLIER),
        (2, 1, 6, OLD),
        (7, 1, 7, OLD),
    )
    expected = [
        (2, 1, 6, OLD),
        (5, 0, 3, EARLIER),
        (5, 1, 5, EARLIER),
        (7, 1, 7, OLD),
    ]
    for pieces in ([given], [given.slice(4), given.slice(0, 4)], [given, given]):
        assert [tuple(row.values()) for row in once(pieces).to_pylist()] == expected
    assert once([]).num_rows == 0
    assert once([]).schema == NAMED


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_rows_lie_in_the_shard_of_their_first_bits(task: Task, bits: int) -> None:
    numbers = [0, 1, (FAR >> 1) - 1, FAR >> 1, FAR - 1, FAR, FAR + 1, (1 << 64) - 1]
    whole = rows(*((number, 0, 1, OLD) for number in numbers))
    found = read(task, write_by_shard(task.folder, bits, "x", whole))
    assert {shard: [row[0] for row in some] for shard, some in found.items()} == {
        shard: [number for number in numbers if number >> (64 - bits) == shard] for shard in range(1 << bits)
    }
    few = write_by_shard(task.folder, bits, "y", whole.slice(7))
    assert [*few] == [(1 << bits) - 1]
    assert write_by_shard(task.folder, bits, "z", whole.slice(0, 0)) == {}


def test_dead_manifests_name_their_chunks_once_and_those_that_cannot_be_read_are_told(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = task.manifest(1, [raw(3), raw(FAR, 9), raw(3)])
    second = task.manifest(2, [raw(3), raw(4)])
    third = task.manifest(3, [raw(5)])
    task.put(f"manifests/{named(4)}", b"torn")
    listed = [(first, OLD), (second, EARLIER), (named(4), OLD), (named(5), OLD), (third, OLD)]
    part = candidates(task, "manifests", [(f"manifests/{name}", 1, time) for name, time in listed])
    for gathered in (1, 1 << 20):  # put together at once, or again and again
        monkeypatch.setattr(named_module, "_GATHERED_MAX", gathered)
        found = name_chunks.body(task.run, NameConfig(bits=1, threads=2), name_task(part))
        assert read(task, found.shards) == {
            0: [
                (3, 0, SIZE, EARLIER),
                (4, 0, SIZE, EARLIER),
                (5, 0, SIZE, OLD),
            ],
            1: [(FAR, 9, SIZE, OLD)],
        }
        assert found.unread == [f"manifests/{named(4)}", f"manifests/{named(5)}"]
    some = name_chunks.body(task.run, NameConfig(bits=0, threads=2), name_task(part, 1, 1))
    assert [row[0] for row in read(task, some.shards)[0]] == [3, 4]
    assert some.unread == []


def test_dead_manifest_that_may_not_be_read_is_told_as_well(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archived one stopped each run until the next clean one."""
    names = [task.manifest(1, [raw(3)]), task.manifest(2, [raw(4)])]
    part = candidates(task, "manifests", [(f"manifests/{name}", 1, OLD) for name in names])
    real = MemoryReader.get

    def archived(reader: Any, key: str) -> bytes:
        if key == f"manifests/{names[0]}":
            raise ConfigError("InvalidObjectState")
        return real(reader, key)

    monkeypatch.setattr(MemoryReader, "get", archived)
    found = name_chunks.body(task.run, NameConfig(bits=0, threads=2), name_task(part))
    assert [row[0] for row in read(task, found.shards)[0]] == [4]
    assert found.unread == [f"manifests/{names[0]}"]


def select(task: Task, *shards: pa.Table, **changes: Any) -> SelectResult:
    parts = {
        number: list(write_by_shard(task.folder, 0, f"x-{number}", shard).values())
        for number, shard in enumerate(shards)
    }
    given: dict[str, Any] = {
        "counted": task.counted(1),
        "cutoff": CUTOFF,
        "candidate_rows": 100,
        "threads": 2,
        "pinned": (),
    }
    return select_dead.body(task.run, SelectConfig(**(given | changes)), SelectTask(number=3, shards=parts))


def test_only_chunks_that_no_live_manifest_names_are_candidates(task: Task) -> None:
    found = select(task, rows((1, 0, 5, OLD), (2, 3, 100, EARLIER)), rows((2, 7, 1, OLD), (1, 1, 1, OLD)))
    (part,) = found.parts
    table = task.folder.read_part(part)
    assert table.select(["address", "size", "last_modified"]).to_pydict() == {
        "address": [f"chunks/{named(2, 3)}", f"chunks/{named(2, 7)}"],
        "size": [100, 1],
        "last_modified": [EARLIER, OLD],
    }
    assert found.counts == {
        "listed_objects": 4,
        "listed_bytes": 107,
        "candidates_objects": 2,
        "candidates_bytes": 101,
        "pinned_objects": 0,
        "pinned_bytes": 0,
    }


def test_pinned_chunks_are_no_candidates(task: Task) -> None:
    given = rows((2, 0, 100, OLD), (3, 0, 10, OLD))
    found = select(task, given, pinned=(task.pin(f"chunks/{named(2)}"),))
    assert task.addresses(found.parts) == [f"chunks/{named(3)}"]
    expected = {"candidates_objects": 1, "candidates_bytes": 10, "pinned_objects": 1, "pinned_bytes": 100}
    assert expected.items() <= found.counts.items()
    nothing = select(task, given.slice(0, 1), pinned=(task.pin(f"chunks/{named(2)}"),))
    assert nothing.parts == []
    assert select(task).parts == []


def test_chunk_is_still_there_only_when_the_store_says_so_and_calls_it_old(task: Task) -> None:
    task.put(f"chunks/{named(2, 3)}", b"xx")
    task.put(f"chunks/{named(4)}", b"xx", CUTOFF)
    given = rows(*((number, tail, 1, EARLIER) for number, tail in ((2, 3), (2, 4), (3, 0), (4, 0))))
    (found,) = still_there(open_reader(task.uri), CUTOFF, 2, given).to_pylist()
    assert (found["key"], found["size"], found["last_modified"]) == (f"chunks/{named(2, 3)}", 2, OLD)
    assert found["etag"]
