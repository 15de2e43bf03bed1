"""Sets of hashes as sorted arrays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import FormatError
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import contains, from_bytes, read_hashes, split, unite, write_hashes
from dredge.storage import open_writer

values = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=50)


def hashes(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(st.lists(values, max_size=5))
def test_united_hashes_are_those_of_a_set(pieces: list[list[int]]) -> None:
    found = unite([hashes(sorted(piece)) for piece in pieces])
    assert found.tolist() == sorted(set().union(*pieces))


@given(values, values)
def test_contains_is_membership(known: list[int], wanted: list[int]) -> None:
    answer = contains(unite([hashes(known)]), hashes(wanted))
    assert answer.tolist() == [value in set(known) for value in wanted]


def test_contains_is_membership_where_much_is_wanted() -> None:
    some = np.random.default_rng(1).integers(0, 2**64, 1 << 20, np.uint64)
    known = unite([some[::1000], hashes([0, 2**64 - 1])])
    wanted = np.concatenate([some, known ^ np.uint64(1), known])  # with first bits of the set
    assert (contains(known, wanted) == np.isin(wanted, known)).all()


@pytest.mark.parametrize("data", [b"1234567", hashes([2, 1]).tobytes(), hashes([1, 1]).tobytes()])
def test_a_file_that_is_no_sorted_set_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        from_bytes(data, "x.u64")


@given(values, st.sampled_from([0, 1, 5]))
def test_shards_are_ranges_that_unite_to_the_set(numbers: list[int], bits: int) -> None:
    whole = unite([hashes(numbers)])
    pieces = split(whole, bits)
    assert len(pieces) == 1 << bits
    assert unite(pieces).tolist() == whole.tolist()
    assert all(
        number >> 64 - bits == shard for shard, piece in enumerate(pieces) for number in piece.tolist()
    )


def test_a_file_with_another_number_of_hashes_than_written_is_refused() -> None:
    folder = RunFolder(open_writer("memory://test-hashes"), "r")
    part = write_hashes(folder, "x.u64", hashes([2, 7]))
    assert read_hashes(folder, part).tolist() == [2, 7]
    with pytest.raises(FormatError):
        read_hashes(folder, replace(part, rows=3))
