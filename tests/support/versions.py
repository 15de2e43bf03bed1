"""A small state, for tests of the storage and updates of states."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, from_versioned
from dredge.runs.versions import VersionStore

FORMAT = 2


@dataclass(frozen=True)
class Told:
    run_id: str
    about: str = ""
    parts: tuple[PartInfo, ...] = ()
    clean_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    format: int = FORMAT


class ToldVersions(VersionStore[Told]):
    """Reads such states and moves them on."""

    def parse(self, value: Mapping[str, Any]) -> Told:
        """Return the state of a `to_json` text."""
        return from_versioned(Told, value, FORMAT)

    def files(self, state: Told) -> Iterable[tuple[RunFolder, PartInfo]]:
        return [(RunFolder(self.writer, state.run_id), part) for part in state.parts]

    @property
    def etag(self) -> str | None:
        return self._etag()
