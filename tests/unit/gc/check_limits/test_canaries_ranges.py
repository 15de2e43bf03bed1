"""Places in a branch's head: by the records that ranges have, of some ranges read and of the others guessed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import FormatError, NotFoundError
from dredge.gc.check_limits import canaries
from dredge.gc.check_limits.canaries import Sizes, _before_some_record, _places, _tables


def made(name: str, size: int = 1, count: int = 1) -> Any:
    """A range, whose keys begin with its name."""
    return SimpleNamespace(
        id=name,
        estimated_size=size,
        count=count,
        min_key=f"{name}/1".encode(),
        max_key=f"{name}/9".encode(),
    )


class Store:
    """Files of ranges, as many bytes as they have records; those without a file are not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **records: int) -> None:
        self.records = records
        self.read: list[str] = []
        monkeypatch.setattr(canaries, "SeekableTable", self._table)

    def _table(self, data: bytes, key: str, _kind: Any) -> Any:
        return SimpleNamespace(count=len(data), key=key)

    def get_many(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for key in keys:
            assert key.startswith("_lakefs/")
            name = key.removeprefix("_lakefs/")
            self.read.append(name)
            if name not in self.records:
                raise NotFoundError(key)
            yield key, b"x" * self.records[name]

    def tables(self, *ranges: Any, seed: int = 1, **sizes: int) -> dict[str, Any]:
        run: Any = SimpleNamespace(reader=self)
        return _tables(run, ranges, random.Random(seed), Sizes(**sizes))


@pytest.mark.parametrize(
    ("sizes", "count"),
    [([10], 1), ([11], 0), ([6, 6], 1), ([4, 4], 2), ([3, 3, 3], 2), ([9, 1, 1], 2), ([], 0)],
)
def test_some_ranges_are_read_that_are_not_too_large_together(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], count: int
) -> None:
    ranges = [made(f"{number}", size) for number, size in enumerate(sizes)]
    store = Store(monkeypatch, **{item.id: 1 for item in ranges})
    found = store.tables(*ranges, *ranges, decoded_bytes=10, decoded_files=2)
    assert len(store.read) == len(found) == count
    assert all(table.key == f"_lakefs/{name}" for name, table in found.items())


def test_which_ranges_are_read_is_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [made(f"{number}") for number in range(4)]
    store = Store(monkeypatch, **{item.id: 1 for item in ranges})
    assert {name for seed in range(40) for name in store.tables(*ranges, seed=seed, decoded_files=1)} == set(
        "0123"
    )


def test_of_ranges_without_records_or_files_places_are_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Store(monkeypatch, a=0).tables(made("a")) == {}
    assert Store(monkeypatch).tables(made("a")) == {}


class Table:
    """A range that was read, which answers for every place with a key, None or an error."""

    def __init__(self, answer: bytes | Exception | None) -> None:
        self.answer = answer

    def place(self, _share: float) -> bytes | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"a/5", {b"a/5"}),
        (None, {b"a/"}),
        (FormatError("damaged"), {b"a/%d" % number for number in range(1, 10)}),
    ],
)
def test_a_place_lies_right_before_a_record_or_is_guessed(
    answer: bytes | Exception | None, expected: set[bytes]
) -> None:
    tables: Any = {"a": Table(answer)}
    chance = random.Random(1)
    assert {_before_some_record(made("a"), tables, chance) for _ in range(200)} == expected
    assert {_before_some_record(made("b"), tables, chance)[:2] for _ in range(200)} == {b"b/"}


def test_places_are_spread_over_ranges_as_records_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch without a head has none, and equal heads are read once."""
    heads = {"c1": "m1", "c2": "m1", "c3": "m2", "c4": "", "c5": "m3"}
    ranges = {
        "m1": (made("a", count=1000), made("b", count=1)),
        "m2": (made("c", count=0), made("d", count=0)),
        "m3": (),
    }
    asked: list[str] = []

    def ranges_of(_run: Any, metarange: str) -> Any:
        asked.append(metarange)
        return ranges[metarange]

    monkeypatch.setattr(canaries, "_metarange_of", lambda _run, commit: heads[commit])
    monkeypatch.setattr(canaries, "_ranges_of", ranges_of)
    monkeypatch.setattr(canaries, "_tables", lambda *_: {})
    branches: Any = [SimpleNamespace(id=f"on {commit}", commit_id=commit) for commit in heads]
    run: Any = SimpleNamespace()
    found = _places(run, branches, 200, random.Random(1), Sizes())
    assert sorted(asked) == ["m1", "m2", "m3"]
    assert Counter(place.branch for place in found) == {"on c1": 200, "on c2": 200, "on c3": 200}
    where = Counter(place.after[0] for place in found)
    assert where["a"] > 380
    assert min(where["c"], where["d"]) > 50
