"""What a purge takes where the ledger knows no version id: the one version that is what the run listed, or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.storage import StorageOptions, open_deleter, open_versions, open_writer
from dredge.storage.model import ObjectWriter, always
from dredge.undo.deleting_leftovers import delete_leftovers
from dredge.undo.leftovers import CURRENT, OTHER, PURGED, WOULD_GO, YOUNG, Choosing
from dredge.undo.putting_back import GONE, RESTORED, TAKEN, PuttingBack
from dredge.undo.ways import VERSIONS
from tests.support.azure_server import AzureServer
from tests.support.memory_store import forget_memory_store, memory_store
from tests.support.memory_versions import OlderVersions

KEY = "data/a"
LATER = datetime.now(UTC) + timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass
class Namespace:
    """A namespace whose store keeps versions."""

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
        """Sizes of the versions that there are, the newest first."""
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
