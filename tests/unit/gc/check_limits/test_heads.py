"""Every head that a branch had is one that it may serve an object by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.gc.check_limits import heads
from dredge.gc.check_limits.heads import Head, find_heads
from dredge.gc.check_limits.places import Places
from dredge.sets.hashes import NONE

METARANGES = {"m1": [("a", 10), ("b", 5), ("c", 7)], "m2": [("x", 4)], "m3": [("c", 7), ("a", 10)]}
BRANCHES = [("main", "m1"), ("dev", "m1"), ("main", "m1"), ("main", "m3"), ("empty", ""), ("other", "m2")]


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Any:
    def read_metarange(data: bytes, key: str) -> Any:
        assert key == f"_lakefs/{data.decode()}"
        ranges = [SimpleNamespace(id=name, count=count) for name, count in METARANGES[data.decode()]]
        return SimpleNamespace(ranges=ranges)

    def get_many(keys: list[str]) -> list[tuple[str, bytes]]:
        return [(key, key.removeprefix("_lakefs/").encode()) for key in keys]

    monkeypatch.setattr(heads, "read_metarange", read_metarange)
    run: Any = SimpleNamespace(reader=SimpleNamespace(get_many=get_many))

    def call(*ranges: str) -> list[Head]:
        spans = {name: range(number, number + 1) for number, name in enumerate(ranges)}
        nothing = np.zeros(len(ranges), np.int64)
        paths = pa.array([b""] * len(ranges), pa.large_binary())
        places = Places(spans, nothing, paths, nothing.astype(np.uint64), NONE)
        return find_heads(run, BRANCHES, places)

    return call


def test_each_head_has_all_of_its_branches_and_what_comes_before_each_range(find: Any) -> None:
    assert find("b", "c") == [Head(["main", "dev"], [("b", 10), ("c", 15)]), Head(["main"], [("c", 0)])]


def test_heads_without_wanted_entries_are_not_asked(find: Any) -> None:
    assert find("x") == [Head(["other"], [("x", 0)])]
    assert find() == []


def test_rows_of_a_head_are_those_wanted_with_their_places_in_it() -> None:
    spans = {"b": range(2), "c": range(2, 5)}
    sizes = np.array([1, 2, 2, 1, 2], np.uint64)
    ranks = np.array([0, 4, 1, 2, 6], np.int64)
    places = Places(spans, ranks, pa.array([b""] * 5, pa.large_binary()), sizes, NONE)
    rows, found = Head(["main"], [("b", 10), ("c", 15)]).rows(places, sizes == 2)
    assert rows.tolist() == [1, 2, 4]
    assert found.tolist() == [14, 16, 21]
    rows, found = Head(["main"], [("c", 0)]).rows(places, sizes == 2)
    assert (rows.tolist(), found.tolist()) == ([2, 4], [1, 6])
