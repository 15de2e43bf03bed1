"""Raw rows of every store: a view is a snapshot, but of DynamoDB, and a delete removes exactly the given rows."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dredge.errors import ConfigError
from dredge.kv.opening import open_row_cleaner, open_row_reader
from dredge.kv.rows import Guard, GuardFailedError, Row, RowCleaner
from lakefs_embedded.kv import MemoryKV, Store, open_store
from tests.support.kv_drivers import DRIVERS
from tests.support.memory_rows import MemoryRows

type Pair = tuple[Store, RowCleaner]


@pytest.fixture(params=sorted(DRIVERS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    if request.param == "memory":
        memory = MemoryKV()
        yield memory, MemoryRows(memory)
        return
    with (
        DRIVERS[request.param].fresh_url(tmp_path, request) as url,
        open_store(url) as store,
        closing(open_row_cleaner(url)) as rows,
    ):
        yield store, rows


def test_partitions_are_found_once_each_in_byte_order(pair: Pair) -> None:
    store, rows = pair
    with rows.view() as view:
        assert list(view.partitions()) == []
    names = [b"\x00", b"\x00\xff", b"a", b"a-b", b"\xff"]
    for name in names[::-1]:
        store.set(name, b"1", b"v")
        store.set(name, b"2", b"v")
    with rows.view() as view:
        assert list(view.partitions()) == names


@pytest.mark.parametrize("pair", ["memory", "postgresql", "sqlite"], indirect=True)
def test_a_view_is_one_moment_whatever_is_written_meanwhile(pair: Pair) -> None:
    store, rows = pair
    store.set(b"p", b"k", b"old")
    with rows.view() as view:
        assert [entry.value for entry in view.scan(b"p")] == [b"old"]
        store.set(b"p", b"k", b"new")
        store.set(b"q", b"k", b"new")
        assert [entry.value for entry in view.scan(b"p")] == [b"old"]
        assert list(view.partitions()) == [b"p"]
        assert list(view.scan(b"p", b"l")) == []


def test_only_rows_with_their_value_go(pair: Pair) -> None:
    store, rows = pair
    store.set(b"p", b"same", b"v")
    store.set(b"p", b"changed", b"new")
    store.set(b"p", b"bystander", b"v")
    outcome = rows.delete_rows(
        [Row(b"p", b"changed", b"old"), Row(b"p", b"same", b"v"), Row(b"p", b"gone", b"v")]
    )
    assert outcome == [False, True, False]
    assert [entry.key for entry in store.scan(b"p")] == [b"bystander", b"changed"]


@pytest.mark.parametrize(
    "guard", [Guard(b"g", b"k", b"other"), Guard(b"g", b"k", None), Guard(b"g", b"absent", b"v")]
)
def test_a_failing_guard_keeps_every_row(pair: Pair, guard: Guard) -> None:
    store, rows = pair
    store.set(b"g", b"k", b"v")
    store.set(b"p", b"k", b"v")
    with pytest.raises(GuardFailedError):
        rows.delete_rows([Row(b"p", b"k", b"v")], [guard])
    assert store.get(b"p", b"k") == b"v"
    assert rows.delete_rows([Row(b"p", b"k", b"v")], [Guard(b"g", b"k", b"v"), Guard(b"a", b"k", None)]) == [
        True
    ]
    assert list(store.scan(b"p")) == []


def test_a_row_is_put_back_only_where_nothing_is(pair: Pair) -> None:
    store, rows = pair
    assert rows.insert_row(Row(b"p", b"k", b"v"))
    assert not rows.insert_row(Row(b"p", b"k", b"other"))
    assert store.get(b"p", b"k") == b"v"


def test_a_reader_cannot_delete(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/kv.db"
    with open_store(url) as store:
        store.set(b"p", b"k", b"v")
        reader = open_row_reader(url)
        with pytest.raises(ConfigError):
            reader.delete_rows([Row(b"p", b"k", b"v")])  # type: ignore[attr-defined]
        assert store.get(b"p", b"k") == b"v"


def test_looking_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        open_row_reader(f"sqlite://{tmp_path}/absent.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["memory://", "redis://h", "kv.db"])
def test_other_stores_cannot_be_looked_at_as_a_whole(url: str) -> None:
    with pytest.raises(ConfigError):
        open_row_reader(url)
