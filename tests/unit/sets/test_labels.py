"""Labels of hashes: the same as a plain dictionary gives, in memory and by shards in a folder."""

from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dredge.sets import labels
from dredge.sets.labels import Labelled, LabelledSets, Labels

TOP = 1 << 64
named = st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 40), max_size=8)), max_size=12)
LABELS = Labels(
    (
        np.array([1, 2, 4, 8, 16], np.uint64),
        np.array([5, 3, 9, 1, 7], np.int32),
        np.arange(5, dtype=np.int32),
    ),
    (np.bitwise_or, np.minimum, np.maximum),
)


def spread(value: int) -> int:
    """A small number somewhere among all hashes."""
    return value * (TOP // 41) % TOP


def collected(rows: list[tuple[int, list[int]]], shard_values: int) -> dict[int, tuple[int, int, int]]:
    found: dict[int, tuple[int, int, int]] = {}
    with LabelledSets(LABELS, sum(len(values) for _, values in rows), shard_values) as sets:
        for row, values in rows:
            sets.add(row, np.array([spread(value) for value in values], np.uint64))
        for _, shard in sets.shards():
            columns = zip(*(column.tolist() for column in shard.columns), strict=True)
            found |= dict(zip(shard.hashes.tolist(), columns, strict=True))
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=named, shard_values=st.sampled_from([1, 4, 1000]), waiting=st.sampled_from([3, 1000]))
@example(rows=[(0, [1, 2, 3, 4]), (1, [1, 5, 6, 7]), (2, [1])], shard_values=1000, waiting=3)
@example(rows=[(0, [1, 2, 3, 4]), (1, [1, 5, 6, 7]), (2, [1])], shard_values=4, waiting=3)
def test_labels_of_equal_hashes_are_combined_as_a_dictionary_would(
    rows: list[tuple[int, list[int]]], shard_values: int, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_BUFFER_VALUES", waiting)
    plain: dict[int, list[int]] = {}
    for row, values in rows:
        for value in values:
            plain.setdefault(spread(value), []).append(row)
    bits, least, _ = (column.tolist() for column in LABELS.columns)
    wanted = {
        value: (int(np.bitwise_or.reduce([bits[row] for row in of])), min(least[row] for row in of), max(of))
        for value, of in plain.items()
    }
    assert collected(rows, shard_values) == wanted


def test_what_waits_in_a_folder_is_removed_in_the_end_also_after_an_error() -> None:
    def folders() -> set[Path]:
        return set(Path(gettempdir()).glob("dredge-labels-*"))

    def fail(sets: LabelledSets) -> None:
        with sets:
            sets.add(0, np.arange(50, dtype=np.uint64))
            next(sets.shards())
            assert folders() > before
            raise KeyError

    before = folders()
    with pytest.raises(KeyError):
        fail(LabelledSets(LABELS, 100, 10))
    assert folders() <= before


def test_a_hash_that_is_not_there_is_not_found() -> None:
    shard = Labelled(np.array([3, 7], np.uint64), (np.array([1, 2]),))
    found, places = shard.find(np.array([7, 8, 2, 3], np.uint64))
    assert found.tolist() == [True, False, False, True]
    assert (places[0], places[3]) == (1, 0)
    assert not Labelled(np.empty(0, np.uint64), ()).find(np.array([7], np.uint64))[0].any()
