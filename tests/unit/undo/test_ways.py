"""A run takes a way back only where the store has it, and nothing is said to come back that is not there."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import ConfigError
from dredge.runs.payload import from_json, to_json
from dredge.storage import open_versions
from dredge.storage.undo import Versioning, VersionReader
from dredge.undo import ways
from dredge.undo.ways import AUTO, OFF, QUARANTINE, VERSIONS, UndoWay, choose_way, way_back
from tests.support.memory_store import forget_memory_store, memory_store
from tests.support.memory_versions import OlderVersions

KEY = "data/a"


@pytest.fixture
def lake() -> Iterator[str]:
    """URI of a namespace in a store that keeps versions."""
    name = f"ways-{uuid.uuid4().hex[:8]}"
    memory_store(name).older = OlderVersions()
    yield f"memory://{name}/lake"
    forget_memory_store(name)


class Store(VersionReader):
    """Versions of a store that answers as it is told, and says where it was asked to try."""

    def __init__(self, versioning: Versioning, kept_seconds: int | None = None) -> None:
        self._versioning = versioning
        self._kept_seconds = kept_seconds
        self.probed: list[str] = []

    def versioning(self, probe_uri: str = "") -> Versioning:
        self.probed.append(probe_uri)
        return self._versioning

    def kept_seconds(self) -> int | None:
        return self._kept_seconds


def chosen(asked: str, lake: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> UndoWay:
    monkeypatch.setattr(ways, "open_versions", lambda *_: store)
    return choose_way(asked, lake, f"{lake}/run")


@pytest.mark.parametrize("versioning", ["enabled", "suspended", "off", "unknown"])
def test_versions_are_the_way_only_where_the_bucket_keeps_them_now(
    versioning: Versioning, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(versioning)
    found = chosen(AUTO, lake, store, monkeypatch)
    assert store.probed == [f"{lake}/run"], "only below the run's folder may something be written"
    if versioning == "enabled":
        assert (found.way, found.why) == (VERSIONS, "the bucket keeps versions")
        assert to_json(chosen(VERSIONS, lake, store, monkeypatch)) == {
            "way": VERSIONS,
            "why": "asked for",
            "expire_days": None,
        }
    else:
        assert found.way == OFF
        with pytest.raises(ConfigError):
            chosen(VERSIONS, lake, store, monkeypatch)


@pytest.mark.parametrize("asked", [OFF, QUARANTINE])
def test_what_was_asked_for_is_done_whatever_the_bucket_keeps(
    asked: str, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("enabled")
    assert chosen(asked, lake, store, monkeypatch) == UndoWay(way=asked, why="asked for")
    assert store.probed == []


def test_a_marker_without_a_version_below_it_is_no_way(lake: str) -> None:
    older = memory_store(lake.split("/")[2]).older
    assert older is not None
    older.mark(f"lake/{KEY}", memory_store(lake.split("/")[2]).clock())
    assert [item.is_marker for item in open_versions(lake).versions(KEY)] == [True]
    assert way_back(lake, f"{lake}/run", KEY, "m") == ""


def test_copies_that_the_store_cannot_make_are_refused_before_anything_is_planned(lake: str) -> None:
    with pytest.raises(ConfigError):
        choose_way(QUARANTINE, lake, "s3://elsewhere/run")


@pytest.mark.parametrize(
    ("expire_days", "purge_days", "days"),
    [(None, None, None), (7, None, 7), (7, 3, 3), (7, 30, 7), (None, 30, 30)],
)
def test_a_deletion_can_be_taken_back_until_the_earlier_of_rule_and_purge(
    expire_days: int | None, purge_days: float | None, days: int | None
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    way = UndoWay(way=VERSIONS, why="", expire_days=expire_days)
    assert way.until(at, purge_days) == (None if days is None else at + timedelta(days=days))
    assert from_json(UndoWay, to_json(way)) == way
    assert UndoWay(way=OFF, why="", expire_days=expire_days).until(at, purge_days) is None
