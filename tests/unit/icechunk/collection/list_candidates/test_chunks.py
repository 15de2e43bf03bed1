"""What optimized runs find of chunks that nobody lists, and what a clean run finds that they had missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dredge.icechunk.collection.list_candidates import chunks
from dredge.icechunk.collection.list_candidates.chunks import _beyond_manifests, of_dead
from dredge.icechunk.collection.list_candidates.named import NAMED, NameResult, NameTask, write_by_shard
from dredge.icechunk.collection.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.tries import StepTry
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_tasks import OLD, named

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
            rows = [
                [*numbers],
                [0] * len(numbers),
                [1] * len(numbers),
                [OLD] * len(numbers),
            ]
            shards = write_by_shard(run.folder, 0, f"x{name}", pa.table(rows, schema=NAMED))
            results.append(NameResult(shards=shards, unread=[]))
    monkeypatch.setattr(chunks, "of_dead", lambda *_: results)
    record = StepRecord({}, attempt)
    for tables in ([addresses(5, 6, 7)], [addresses(), addresses(5), addresses(6, 7)]):
        found = _beyond_manifests(run, HERE, record, tables)
        assert found["address"].to_pylist() == [f"chunks/{named(number)}" for number in left]
    for nothing in ([], [addresses()]):
        assert _beyond_manifests(run, HERE, record, nothing).num_rows == 0


def test_only_dead_manifests_are_read_and_those_that_cannot_be_read_are_told(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        PartInfo(f"list_candidates/found-{name}-0000-00000.parquet", rows, 1, "")
        for name, rows in (("manifests", 501), ("snapshots", 3), ("chunks", 4))
    ]
    given: list[tuple[list[NameTask], Any]] = []

    def spread(
        _: Run, runner: Any, step: str, function: Any, config: Any, tasks: Any, unit: str, total: int
    ) -> Any:
        given.append((tasks, total))
        return [NameResult(shards={}, unread=["manifests/A"] * number) for number, _ in enumerate(tasks)]

    monkeypatch.setattr(Run, "spread", spread)
    run = v1.plan()
    record = StepRecord({}, StepTry(run.folder.writer, "list_candidates", 1), parts=parts)
    of_dead(run, HERE, record, 3)
    ((tasks, total),) = given
    assert total == 501
    assert [(task.name, task.part, task.first, task.count) for task in tasks] == [
        ("named-00000", parts[0], 0, 500),
        ("named-00001", parts[0], 500, 500),
    ]
    assert record.counts["manifests_unread"] == 1
    assert "manifests/A" in record.warnings[0]
