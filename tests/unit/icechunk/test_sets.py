"""Sets of ids, and the index's parts of manifests."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import read_manifest_rows, write_manifest_rows
from dredge.runs.summary import PartInfo
from dredge.storage import open_writer

IDS = [np.array(values, np.uint64) for values in ([1, 5, 9], [], [2**64 - 1])]
ROWS = list(zip(("A", "B", "C"), IDS, strict=True))


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


def test_part_of_manifests_comes_back_as_written() -> None:
    state = open_writer("memory://test-sets-part")
    part = write_manifest_rows(state, "x", ROWS)
    assert [(name, ids.tolist()) for name, ids in read_manifest_rows(state, part)] == [
        ("A", [1, 5, 9]),
        ("B", []),
        ("C", [2**64 - 1]),
    ]
    assert read_manifest_rows(state, write_manifest_rows(state, "none", [])) == []


@pytest.mark.parametrize("place", [0, 8, 12, -1])
def test_part_with_a_changed_byte_is_refused(place: int) -> None:
    state = open_writer(f"memory://test-sets-changed-{place}")
    part = write_manifest_rows(state, "x", ROWS)
    data = bytearray(state.get(part.name))
    data[place] ^= 1
    state.put(part.name, bytes(data))
    with pytest.raises(FormatError, match="are not those that were written"):
        read_manifest_rows(state, part)


@pytest.mark.parametrize(
    "data", [b"", b"PAR1 of an older release", bytes(8) + bytes(16), bytes(8) + bytes(3)]
)
def test_part_of_another_layout_is_refused(data: bytes) -> None:
    state = open_writer(f"memory://test-sets-layout-{len(data)}")
    state.put("p", data)
    part = PartInfo("p", 3, len(data), hashlib.sha256(data).hexdigest())
    with pytest.raises(FormatError, match=r"p (is no part|has not the rows)"):
        read_manifest_rows(state, part)


def test_part_with_fewer_manifests_than_were_written_is_refused() -> None:
    state = open_writer("memory://test-sets-fewer")
    part = replace(write_manifest_rows(state, "x", ROWS), rows=4)
    with pytest.raises(FormatError, match="has not the rows"):
        read_manifest_rows(state, part)
