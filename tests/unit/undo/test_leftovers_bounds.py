"""What of a deletion's leftovers may go for good: each condition by itself, and its bound."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import UnavailableError
from dredge.storage import ObjectVersion, open_writer
from dredge.undo.leftovers import CURRENT, FAILED, OTHER, WOULD_GO, YOUNG, Choosing, Leftover
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS, quarantine_uri
from tests.support.memory_store import MemoryVersions, forget_memory_store, memory_store

CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
OLD = CUTOFF - timedelta(microseconds=1)
KEY = "data/a"


def version(name: str, *, size: int = 7, is_latest: bool = False, etag: str = "tag") -> ObjectVersion:
    return ObjectVersion(
        version_id=name, is_latest=is_latest, is_marker=False, size=size, etag=etag, last_modified=OLD
    )


def marker(name: str, at: datetime = OLD, *, is_latest: bool = False) -> ObjectVersion:
    return ObjectVersion(
        version_id=name, is_latest=is_latest, is_marker=True, size=0, etag=None, last_modified=at
    )


def row(version_id: str | None = "m", **columns: Any) -> dict[str, Any]:
    """Of the ledger: what the run deleted had 7 bytes."""
    return {
        "address": KEY,
        "size": 7,
        "etag": "tag",
        "version_id": version_id,
        "outcome": "deleted",
        "done_by": OLD,
        **columns,
    }


def away(*_: object) -> None:
    raise UnavailableError("SlowDown")


@pytest.fixture
def lake() -> Iterator[str]:
    name = f"bounds-{uuid.uuid4().hex[:8]}"
    memory_store(name).clock = lambda: OLD
    yield f"memory://{name}/lake"
    forget_memory_store(name)


@pytest.fixture
def looked(lake: str, stand_in: Any) -> Any:
    """Looks at versions with a row; gives the only leftover."""

    def look(found: list[ObjectVersion], of: dict[str, Any]) -> Leftover | None:
        stand_in(MemoryVersions.versions, lambda *_: found)
        chosen = Choosing(lake, f"{lake}/run", VERSIONS, CUTOFF).look(of)
        assert len(chosen) <= 1
        return chosen[0] if chosen else None

    return look


@pytest.mark.parametrize("columns", [{"size": 8}, {"etag": "another"}])
def test_a_version_with_another_size_or_another_tag_stays(columns: dict[str, Any], looked: Any) -> None:
    found = looked([marker("m", is_latest=True), version("v")], row(**columns))
    assert (found.outcome, found.version, found.marker) == (OTHER, None, None)


def test_a_marker_that_a_purge_left_goes_alone_and_takes_no_bytes(looked: Any) -> None:
    mine = marker("m", is_latest=True)
    for found in ([mine], [mine, marker("n")]):
        left = looked(found, row())
        assert (left.outcome, left.version, left.marker, left.size_bytes) == (WOULD_GO, None, mine, 0)
    assert looked([version("newer", is_latest=True), mine], row()) is None, (
        "it hides nothing, and is not ours"
    )
    assert looked([], row()) is None


def test_a_version_below_the_marker_that_is_the_current_one_stays(looked: Any) -> None:
    """Stores sort what has the same time in their own way."""
    assert looked([marker("m"), version("v", is_latest=True)], row()).outcome == CURRENT


def test_an_id_in_the_ledger_that_names_a_version_takes_nothing(looked: Any) -> None:
    assert looked([version("m"), version("v")], row()).outcome == OTHER


def test_without_the_runs_marker_nothing_goes(looked: Any) -> None:
    assert looked([version("v", is_latest=True)], row()).outcome == CURRENT
    assert looked([marker("another", is_latest=True), version("v")], row()).outcome == OTHER
    assert looked([version("v")], row()).outcome == OTHER
    assert looked([], row()) is None


def test_where_the_ledger_knows_no_id_only_the_newest_marker_is_the_runs(looked: Any) -> None:
    mine = marker("m", is_latest=True)
    assert looked([mine, version("v")], row(None)).outcome == WOULD_GO
    assert looked([marker("m"), version("v")], row(None)).outcome == OTHER
    assert looked([mine, version("v")], row(None, etag=None)).outcome == OTHER
    assert looked([version("w", is_latest=True), version("v")], row(None)).outcome == CURRENT
    assert looked([mine, version("v", etag="another"), version("w")], row(None)).outcome == OTHER


def test_only_where_the_ledger_knows_no_id_several_versions_that_are_alike_stay(looked: Any) -> None:
    alike = [marker("m", is_latest=True), version("v"), version("w")]
    assert looked(alike, row(None)).outcome == OTHER
    assert looked(alike, row()).outcome == WOULD_GO
    for other in (version("w", etag="another"), version("w", size=8)):
        assert looked([*alike[:2], other], row(None)).outcome == WOULD_GO
    assert looked([*alike[:2], marker("n"), alike[2]], row(None)).outcome == OTHER


@pytest.mark.parametrize(
    ("way", "version_id"), [(QUARANTINE, None), (QUARANTINE, "m"), (VERSIONS, None), (OFF, "m")]
)
def test_copies_and_versions_are_looked_at_where_the_run_made_them(
    way: str, version_id: str | None, lake: str, stand_in: Any
) -> None:
    open_writer(quarantine_uri(f"{lake}/run")).put(KEY, b"garbage")
    stand_in(MemoryVersions.versions, lambda *_: [marker("m", is_latest=True), version("v")])
    found = Choosing(lake, f"{lake}/run", way, CUTOFF).look(row(version_id))
    wanted = [QUARANTINE] * (way == QUARANTINE) + [VERSIONS] * (way == VERSIONS or version_id is not None)
    assert [(item.outcome, item.way) for item in found] == [(WOULD_GO, way) for way in wanted]
    stand_in(MemoryVersions.versions, away)
    found = Choosing(lake, f"{lake}/run", way, CUTOFF).look(row(version_id))
    outcomes = {QUARANTINE: WOULD_GO, VERSIONS: FAILED}
    assert [(item.outcome, item.way) for item in found] == [(outcomes[way], way) for way in wanted]


def test_a_copy_goes_when_it_is_older_than_the_cutoff_and_as_long_as_what_was_deleted(lake: str) -> None:
    copies, look = (
        open_writer(quarantine_uri(f"{lake}/run")),
        Choosing(lake, f"{lake}/run", QUARANTINE, CUTOFF).look,
    )
    assert look(row(None)) == []
    copies.put(KEY, b"garbage")
    (found,) = look(row(None))
    assert (found.outcome, found.way, found.size_bytes) == (WOULD_GO, QUARANTINE, 7)
    (found,) = look(row(None, size=6))
    assert found.outcome == OTHER
    memory_store(lake.split("/")[2]).clock = lambda: CUTOFF
    copies.put(KEY, b"garbage")
    (found,) = look(row(None))
    assert found.outcome == YOUNG
