"""Sets of ids."""

from __future__ import annotations

import numpy as np
import pytest

from dredge.icechunk.collection import sets


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
