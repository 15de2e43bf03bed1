"""What a purge takes where the ledger knows no version id: the one version that is what the run listed, or nothing."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import UnavailableError
from dredge.storage import ObjectVersion, StorageOptions, open_deleter, open_versions, open_writer
from dredge.storage.model import ObjectWriter, always
from dredge.undo.leftovers import (
    CURRENT,
    FAILED,
    OTHER,
    PURGED,
    WOULD_GO,
    YOUNG,
    Choosing,
    Leftover,
    delete_leftovers,
)
from dredge.undo.putting_back import GONE, RESTORED, TAKEN, PuttingBack
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS, quarantine_uri
from tests.support.azure_server import AzureServer
from tests.support.memory_store import MemoryVersions, forget_memory_store, memory_store
from tests.support.memory_versions import OlderVersions

KEY = "data/a"
LATER = datetime.now(UTC) + timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass
class Namespace:
    uri: str
    options: StorageOptions

    @property
    def writer(self) -> ObjectWriter:
        return open_writer(self.uri, self.options)

    def run_deletes(self, content: bytes = b"garbage") -> dict[str, Any]:
        """Put an object, and delete it as a run does; gives the row of its ledger, without the version."""
        self.writer.put(KEY, content)
        found = self.writer.stat(KEY)
        self.somebody_deletes()
        return {
            "address": KEY,
            "size": found.size,
            "etag": found.etag,
            "version_id": None,
            "outcome": "deleted",
            "done_by": LONG_AGO,
        }

    def somebody_deletes(self) -> None:
        open_deleter(self.uri, self.options).delete([KEY])

    def versions(self) -> list[int]:
        found = open_versions(self.uri, self.options).versions(KEY)
        return [item.size for item in found if not item.is_marker]

    def looked_at(self, row: dict[str, Any], cutoff: datetime = LATER) -> list[str]:
        return [item.outcome for item in self._choosing(cutoff).look(row)]

    def purged(self, row: dict[str, Any]) -> list[str]:
        chosen = self._choosing(LATER).look(row)
        return [item.outcome for item in delete_leftovers(self.uri, f"{self.uri}/run", chosen, always)]

    def restored(self, row: dict[str, Any]) -> str:
        return PuttingBack(self.uri, f"{self.uri}/run", VERSIONS).put_back(row).outcome

    def _choosing(self, cutoff: datetime) -> Choosing:
        return Choosing(self.uri, f"{self.uri}/run", VERSIONS, cutoff)


@pytest.fixture(scope="module")
def azure() -> Iterator[AzureServer]:
    with AzureServer() as server:
        yield server


@pytest.fixture(params=["memory", "azure"])
def namespace(
    request: pytest.FixtureRequest, azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Namespace]:
    if request.param == "azure":
        for name, value in azure.options.to_env().items():
            monkeypatch.setenv(name, value)
        yield Namespace(f"{azure.container(versioned=True)}/lake", azure.options)
        return
    name = f"choosing-{uuid.uuid4().hex[:8]}"
    memory_store(name).older = OlderVersions()
    yield Namespace(f"memory://{name}/lake", StorageOptions())
    forget_memory_store(name)


def test_the_version_that_the_run_listed_goes_and_older_ones_stay(namespace: Namespace) -> None:
    namespace.writer.put(KEY, b"older")
    row = namespace.run_deletes()
    assert namespace.versions() == [7, 5]
    assert namespace.looked_at(row) == [WOULD_GO]
    assert namespace.purged(row) == [PURGED]
    assert namespace.versions() == [5]


@pytest.mark.parametrize("content", [b"somebody else's", b"garbage"])
def test_what_was_written_since_stays_with_all_that_is_below_it(namespace: Namespace, content: bytes) -> None:
    row = namespace.run_deletes()
    namespace.writer.put(KEY, content)
    assert namespace.purged(row) == [CURRENT]
    assert namespace.versions() == [len(content), 7]


@pytest.mark.parametrize("content", [b"somebody else's", b"as long"])
def test_what_somebody_else_deleted_since_stays(namespace: Namespace, content: bytes) -> None:
    row = namespace.run_deletes()
    namespace.writer.put(KEY, content)
    namespace.somebody_deletes()
    assert namespace.purged(row) == [OTHER]
    assert namespace.versions() == [len(content), 7]
    assert namespace.restored(row) == GONE


def test_of_several_versions_that_are_alike_none_goes() -> None:
    """Tags of S3 and Google Cloud Storage are the content's: somebody may have deleted the same bytes before."""
    name = f"choosing-{uuid.uuid4().hex[:8]}"
    memory_store(name).older = OlderVersions()
    namespace = Namespace(f"memory://{name}/lake", StorageOptions())
    namespace.run_deletes()
    row = namespace.run_deletes()
    assert namespace.purged(row) == [OTHER]
    assert namespace.versions() == [7, 7]
    forget_memory_store(name)


def test_a_deletion_is_as_young_as_the_last_word_of_the_ledger(namespace: Namespace) -> None:
    """Azure does not tell when a name was deleted, and the version below is as old as its upload."""
    row = namespace.run_deletes()
    row["done_by"] = LATER
    assert namespace.looked_at(row) == [YOUNG]


def test_what_is_brought_back_has_its_bytes_and_what_was_written_since_stays(namespace: Namespace) -> None:
    row = namespace.run_deletes()
    assert namespace.restored(row) == RESTORED
    assert namespace.writer.get(KEY) == b"garbage"
    assert namespace.purged(row) == [CURRENT]
    namespace.writer.put(KEY, b"somebody else's")
    assert namespace.restored(row) == TAKEN
    assert namespace.writer.get(KEY) == b"somebody else's"


# What of a deletion's leftovers may go for good: each condition by itself, and its bound.


CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
OLD = CUTOFF - timedelta(microseconds=1)


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
