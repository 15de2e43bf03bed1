"""What a store says of each object, and what is made of it: only a known age lets an object become garbage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.subtract import store_lookup
from dredge.gc.subtract.store_lookup import _Refused, ask
from dredge.storage import ObjectInfo
from dredge.storage.lookup import LOOKS_PER_PAGE

OLD = datetime(2026, 1, 2, tzinfo=UTC)


def info(key: str, modified: Any = OLD) -> ObjectInfo:
    return ObjectInfo(key, 3, modified, "e")


@dataclass
class Store:
    """Some objects; a key with an error raises it."""

    objects: dict[str, Any]
    is_remote: bool = False

    def __post_init__(self) -> None:
        self.stats: list[str] = []
        self.listed: list[str] = []

    def stat(self, key: str) -> ObjectInfo:
        self.stats.append(key)
        found = self.objects.get(key, NotFoundError(key))
        if isinstance(found, Exception):
            raise found
        return info(key, found)

    def ask(self, *addresses: str) -> dict[str, Any]:
        reader: Any = self
        answers = ask(reader, sorted(addresses), 2)
        assert len(answers) == len(addresses)
        return {answer.key: answer for answer in answers if answer is not None}


@dataclass
class Stretch:
    """Names that one piece of a listing answers for."""

    names: Sequence[str]
    found: pa.Table
    listed: int


def listing(
    monkeypatch: pytest.MonkeyPatch, stretches: Sequence[tuple[Sequence[str], Sequence[str], int]]
) -> list[str]:
    """Answer for names in stretches: those answered, those of them that are there, and rows that were listed."""
    asked: list[str] = []

    def find_neighbours(_reader: Any, prefix: str, names: Sequence[str]) -> Iterator[Stretch]:
        asked.append(prefix)
        assert all(name.startswith(prefix) for name in names)
        for answered, there, listed in stretches:
            rows = [{"key": key, "last_modified": OLD, "size": 3, "etag": "listed"} for key in there]
            schema = pa.schema(
                [
                    ("key", pa.string()),
                    ("last_modified", pa.timestamp("us", tz="UTC")),
                    ("size", pa.int64()),
                    ("etag", pa.string()),
                ]
            )
            yield Stretch(answered, pa.Table.from_pylist(rows, schema=schema), listed)

    monkeypatch.setattr(store_lookup, "find_neighbours", find_neighbours)
    return asked


def test_an_object_that_is_gone_has_no_answer_and_one_that_is_denied_has_the_stores_words() -> None:
    store = Store({"a": OLD, "c": ConfigError("denied"), "d": UnavailableError("400")})
    assert store.ask("a", "b", "c", "d") == {
        "a": info("a"),
        "c": _Refused("c", "denied"),
        "d": _Refused("d", "400"),
    }


@pytest.mark.parametrize(
    "modified", [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 5, 5, tzinfo=UTC)]
)
def test_an_object_without_a_time_stops_the_run(modified: datetime | None) -> None:
    """Some stores give the epoch where they know nothing; an object of that age would be garbage at once."""
    with pytest.raises(RefusedError, match="gives no time for 'f/a'"):
        Store({"f/a": modified}).ask("f/a")
    with pytest.raises(RefusedError, match="gives no time for 'f/a'"):
        store_lookup._info({"key": "f/a", "last_modified": modified, "size": 1, "etag": None})


NAMES = [f"f/{number:03d}" for number in range(LOOKS_PER_PAGE + 1)]


def test_a_folder_of_a_remote_store_is_listed_and_what_is_not_there_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prefixes = listing(monkeypatch, [(NAMES[:3], NAMES[:2], 10), (NAMES[3:], NAMES[4:], 10)])
    few = [f"g/{number:03d}" for number in range(LOOKS_PER_PAGE - 1)]
    store = Store(dict.fromkeys(few, OLD), is_remote=True)
    found = store.ask(*NAMES, *few)
    assert prefixes == ["f/"], "few objects of a folder are asked for one by one"
    assert sorted(store.stats) == few
    assert sorted(found) == [*NAMES[:2], *NAMES[4:], *few]
    assert found[NAMES[0]].etag == "listed"


def test_a_folder_that_cannot_be_listed_exactly_is_asked_for_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_neighbours(*_: Any) -> Iterator[Stretch]:
        yield Stretch(NAMES[:2], pa.table({"key": pa.array([], pa.string())}), 10)
        raise FormatError("out of order")

    monkeypatch.setattr(store_lookup, "find_neighbours", find_neighbours)
    store = Store(dict.fromkeys(NAMES, OLD), is_remote=True)
    assert sorted(store.ask(*NAMES)) == NAMES
    assert sorted(store.stats) == NAMES, "nothing that this listing said counts"


@pytest.mark.parametrize(("count", "are_listed"), [(3, False), (4, True)])
def test_few_refused_objects_of_a_folder_are_odd_and_many_are_a_policy(
    monkeypatch: pytest.MonkeyPatch, count: int, are_listed: bool
) -> None:
    """What is odd is held; where nothing of a folder may be looked at, its listing tells."""
    names = NAMES[:count]
    prefixes = listing(monkeypatch, [(names, names, 10**9)])
    refused = dict.fromkeys(names, ConfigError("denied"))
    found = Store({**refused, "g/a": OLD}, is_remote=True).ask(*names, "g/a", "g/b")
    assert prefixes == (["f/"] if are_listed else [])
    assert [isinstance(found[name], ObjectInfo) for name in names] == [are_listed] * count
    assert found["g/a"] == info("g/a")
