"""Which versions of a state still count, and how old files are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError
from dredge.runs.cleanup import ListedFiles, counting_versions
from dredge.runs.versions import POINTER, VERSIONS, Current
from dredge.storage import ObjectWriter, open_writer, store_clock
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
    """Versions of five runs, the newest first; the pointer names that."""
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
    found = counting_versions(store, ListedFiles({**listed.sizes, beside: 1}, listed.aged), folder)
    assert sorted(found) == sorted(names[:counting])
    assert all(found[name] == store.read(name, None) for name in found)


def test_the_one_that_the_pointer_names_counts_though_it_was_listed_as_old_or_not_at_all(
    store: ToldVersions, names: list[str]
) -> None:
    store.advance(store.read(names[3], None), Current(etag=store.etag))
    assert set(counting_versions(store, files(names[:4], names[1:4]), "")) == {*names[:2], names[3]}
    assert set(counting_versions(store, files([]), "")) == {names[3]}


def test_without_a_pointer_the_listed_ones_count(
    store: ToldVersions, writer: ObjectWriter, names: list[str]
) -> None:
    other = ToldVersions(open_writer("memory://lifetimes-test/another"))
    assert counting_versions(other, files([]), "") == {}
    for name in names:
        other.writer.put(name, writer.get(name))
    assert set(counting_versions(other, files(names, names[1:]), "")) == set(names[:2])


@pytest.mark.parametrize("data", [b"{}", b"no JSON"])
def test_a_damaged_version_counts_for_nobody_unless_it_is_the_newest(
    store: ToldVersions, writer: ObjectWriter, names: list[str], data: bytes
) -> None:
    for damaged in names[1:3]:
        writer.put(damaged, data)
    assert set(counting_versions(store, files(names), "")) == {names[0], *names[3:]}
    writer.put(names[0], data)
    with pytest.raises(FormatError):
        counting_versions(store, files(names), "")


def test_the_newest_is_the_one_of_its_whole_digest(
    store: ToldVersions, writer: ObjectWriter, names: list[str]
) -> None:
    pointer = json.loads(writer.get(POINTER))
    digest = hashlib.sha256(b"another").hexdigest()
    writer.put(POINTER, json.dumps({**pointer, "sha256": pointer["sha256"][:16] + digest[16:]}).encode())
    with pytest.raises(FormatError):
        counting_versions(store, files(names), "")


def test_what_was_last_modified_before_an_instant_is_aged(writer: ObjectWriter) -> None:
    for key in ("a/one", "a/two", "b/three"):
        writer.put(key, key.encode())
    times = {info.key: info.last_modified for info in writer.list_level("a/").objects}
    listed = ListedFiles.of(writer, "a/", times["a/two"])
    assert listed.sizes == {"a/one": 5, "a/two": 5}
    assert listed.aged == {key for key, at in times.items() if at < times["a/two"]}
    later = ListedFiles.of(writer, "", store_clock(writer, "") + DAY)
    assert later.old("a/") == later.below("a/") == ["a/one", "a/two"]
    assert files(["b", "a/2", "a/1", "a/3"], ["a/3", "a/1", "b"]).old("a/") == ["a/1", "a/3"]
    assert files(["b", "a/2"], ["b"]).below("a/") == ["a/2"]
