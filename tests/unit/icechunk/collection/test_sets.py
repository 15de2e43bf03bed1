"""Sets of ids."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.runs.folder import RunFolder
from dredge.storage import open_writer
from tests.support.icechunk_tasks import named


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


def test_uniting_one_by_one_or_by_shard_gives_what_uniting_at_once_gives(
    pieces: list[sets.Ids], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "GATHERED_MAX", 100)
    whole = sets.unite(pieces)
    assert np.array_equal(whole, np.unique(np.concatenate(pieces)))
    assert np.array_equal(sets.unite_all(iter(pieces)), whole)
    split = zip(*(sets.shards(piece, 2) for piece in pieces), strict=True)
    by_shard = list(sets.unite_by_shard([list(shard) for shard in split]))
    assert len(by_shard) == 4
    assert np.array_equal(np.concatenate(by_shard), whole)


def test_single_unsorted_piece_is_sorted_too() -> None:
    assert sets.unite([np.array([3, 1, 3], np.uint64)]).tolist() == [1, 3]


def test_shards_are_united_also_where_nobody_knows_how_many_processors_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    one, two = np.array([1, 3], np.uint64), np.array([2, 3], np.uint64)
    assert [ids.tolist() for ids in sets.unite_by_shard([[one, two], [], [two]])] == [[1, 2, 3], [], [2, 3]]


def test_set_has_what_is_in_it_and_nothing_between_below_or_above() -> None:
    ids = np.array([3, 5], np.uint64)
    wanted = np.array([6, 5, 4, 3, 2, 2**64 - 1], np.uint64)
    assert sets.contains(ids, wanted).tolist() == [False, True, False, True, False, False]
    assert (~sets.contains(sets.NONE, wanted)).tolist() == [True] * 6


def test_names_become_the_numbers_of_their_first_bits() -> None:
    assert sets.of_names([named(9), named(2), named(9, 1)]).tolist() == [2, 9]


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
