"""Which versions of a state still count, and how old files are."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError
from dredge.runs.cleanup import ListedFiles, read_recent_versions
from dredge.runs.versions import POINTER, VERSIONS, Current
from dredge.storage import ObjectWriter, open_writer
from dredge.xid import new_descending_xid
from tests.support.memory_store import forget_memory_store
from tests.support.versions import Told, ToldVersions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://lifetimes-test/own")
    forget_memory_store("lifetimes-test")


@pytest.fixture
def store(writer: ObjectWriter) -> ToldVersions:
    return ToldVersions(writer)


@pytest.fixture
def names(store: ToldVersions) -> list[str]:
    found = [
        store.advance(Told(new_descending_xid(NOW - days * DAY)), Current(etag=store.etag)).name
        for days in (5, 4, 3, 2, 1)
    ]
    return found[::-1]


def files(names: Iterable[str], aged: Iterable[str] = (), folder: str = "") -> ListedFiles:
    return ListedFiles(
        {f"{folder}{name}": 1 for name in names}, frozenset(f"{folder}{name}" for name in aged)
    )


@pytest.mark.parametrize("folder", ["", "_dredge/"])
@pytest.mark.parametrize(("young", "counting"), [(0, 1), (1, 2), (3, 4), (5, 5)])
def test_a_version_counts_that_was_the_newest_since_files_age(
    store: ToldVersions, names: list[str], folder: str, young: int, counting: int
) -> None:
    beside = f"{folder}{VERSIONS}-of-another/x.json"
    listed = files(names, names[young:], folder)
    found = read_recent_versions(store, ListedFiles({**listed.sizes, beside: 1}, listed.aged), folder)
    assert sorted(found) == sorted(names[:counting])
    assert all(found[name] == store.read(name, None) for name in found)


def test_the_one_that_the_pointer_names_counts_though_it_was_listed_as_old_or_not_at_all(
    store: ToldVersions, names: list[str]
) -> None:
    store.advance(store.read(names[3], None), Current(etag=store.etag))
    assert set(read_recent_versions(store, files(names[:4], names[1:4]), "")) == {*names[:2], names[3]}
    assert set(read_recent_versions(store, files([]), "")) == {names[3]}


@pytest.mark.parametrize("data", [b"{}", b"no JSON"])
def test_a_damaged_version_counts_for_nobody_unless_it_is_the_newest(
    store: ToldVersions, writer: ObjectWriter, names: list[str], data: bytes
) -> None:
    for damaged in names[1:3]:
        writer.put(damaged, data)
    assert set(read_recent_versions(store, files(names), "")) == {names[0], *names[3:]}
    writer.put(names[0], data)
    with pytest.raises(FormatError):
        read_recent_versions(store, files(names), "")


def test_the_newest_is_the_one_of_its_whole_digest(
    store: ToldVersions, writer: ObjectWriter, names: list[str]
) -> None:
    pointer = json.loads(writer.get(POINTER))
    digest = hashlib.sha256(b"another").hexdigest()
    writer.put(POINTER, json.dumps({**pointer, "sha256": pointer["sha256"][:16] + digest[16:]}).encode())
    with pytest.raises(FormatError):
        read_recent_versions(store, files(names), "")
