"""Ages and sets of ids."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.kinds import is_old, is_old_column
from dredge.runs.folder import RunFolder
from dredge.storage import open_writer

CUTOFF = datetime(2026, 5, 1, 12, 0, 10, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("second", "micro", "old"),
    [
        (9, 0, True),
        (10, 400_000, True),
        (10, 500_000, False),
        (10, 600_000, False),
        # A store that counts in whole seconds may have written it at 10.9.
        (10, 0, False),
    ],
)
def test_whole_seconds_count_as_one_second_later(second: int, micro: int, old: bool) -> None:
    time = CUTOFF.replace(second=second, microsecond=micro)
    assert is_old(time, CUTOFF) is old
    column = pa.array([time], pa.timestamp("us", tz="UTC"))
    assert is_old_column(column, CUTOFF).tolist() == [old]


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


@pytest.fixture
def pieces() -> list[sets.Ids]:
    rng = np.random.default_rng(3)
    return [np.sort(rng.integers(0, 2**64, 50, dtype=np.uint64)) for _ in range(40)] * 2


@pytest.mark.parametrize("ids", [[], [7], [2, 7, 2**64 - 1]])
def test_set_comes_back_as_it_was_written(ids: list[int]) -> None:
    folder = RunFolder(open_writer(f"memory://test-sets-{len(ids)}"), "r")
    part = sets.write_ids(folder, "x.ids", np.array(ids, np.uint64))
    assert sets.read_ids(folder, part).tolist() == ids
    assert part.rows == len(ids)
    with pytest.raises(FormatError):
        sets.read_ids(folder, replace(part, rows=len(ids) + 1))


@pytest.mark.parametrize("ids", [[7, 2], [7, 7], [1, 9, 8]])
def test_set_that_is_not_sorted_and_distinct_is_refused(ids: list[int]) -> None:
    folder = RunFolder(open_writer(f"memory://test-sets-unsorted-{ids[0]}-{ids[1]}"), "r")
    part = sets.write_ids(folder, "x.ids", np.array(ids, np.uint64))
    with pytest.raises(FormatError):
        sets.read_ids(folder, part)
