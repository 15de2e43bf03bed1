"""What optimized runs find of chunks that nobody lists, and what a clean run finds that they had missed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from dredge.icechunk.collection.list_candidates import chunks
from dredge.icechunk.collection.list_candidates.chunks import _beyond_manifests
from dredge.icechunk.collection.list_candidates.named import NAMED, NameResult, write_by_shard
from dredge.runs.steps import StepRecord
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
