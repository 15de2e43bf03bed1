"""Reference counts: added, subtracted, written and read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import FormatError
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.sets.hashes import Counted, counted_from_bytes, write_counted
from dredge.sets.live import CountedSet
from dredge.storage import open_writer

sets = st.lists(st.sets(st.integers(0, 5) | st.sampled_from([2**63, 2**64 - 1])), max_size=5)


def counted(found: list[set[int]], sign: int = 1) -> Counted:
    return Counted.of([np.array(sorted(item), np.uint64) for item in found], sign)


@given(sets, st.integers(0, 3))
def test_a_set_in_layers_is_live_where_more_was_added_than_subtracted(
    added: list[set[int]], bits: int
) -> None:
    folder = RunFolder(open_writer("memory://counted"), "run")
    subtracted = added[::2]

    def write(layer: str, whole: Counted) -> list:
        return [
            write_counted(folder, f"{layer}-{number:04d}.counts", piece)
            for number, piece in enumerate(whole.split(bits))
            if len(piece.hashes)
        ]

    found = CountedSet.of(write("all", counted(added)), bits).then(write("less", counted(subtracted, -1)))
    found = from_json(CountedSet, to_json(found))
    wanted = np.array(sorted(set().union(*added)), np.uint64)
    (answer,) = found.find(folder, [wanted])
    left = set().union(*added[1::2])
    assert answer.tolist() == [value in left for value in wanted.tolist()]


def test_layers_that_do_not_belong_together_are_refused() -> None:
    folder = RunFolder(open_writer("memory://counted"), "run")
    first = write_counted(folder, "first-0000.counts", counted([{1, 2}]))
    second = write_counted(folder, "second-0000.counts", counted([{1}, {1}], -1))
    found = CountedSet.of([first], 0).then([second])
    with pytest.raises(FormatError):
        found.find(folder, [np.array([1, 2], np.uint64)])


@pytest.mark.parametrize("data", [b"", b"x" * 12, b"x" * 25])
def test_a_file_that_is_not_as_long_as_its_hashes_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        counted_from_bytes(data, 2, "x.counts")
