"""The state of a repository's collections; `dredge.runs.versions` says how it lies and moves on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dredge.icechunk.collection.state.model import FORMAT, RunState
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_versioned
from dredge.runs.summary import PartInfo
from dredge.runs.versions import Current, VersionStore
from dredge.storage import open_writer


class StateStore(VersionStore[RunState]):
    """Reads the state and moves it on."""

    def parse(self, value: Mapping[str, Any]) -> RunState:
        """Give the state that `to_json` made; raises FormatError when it is none."""
        return from_versioned(RunState, value, FORMAT)

    def current(self, uri: str, spec_version: int) -> Current[RunState]:
        """Read the newest state and see whether a run may build on it.

        Args:
            uri: that it must be about. A repository that was copied or moved with its state begins anew.
            spec_version: that it must be about: an upgrade changes what counts as live.
        """
        place = uri.rstrip("/")
        return self.find({"uri": lambda found: found.rstrip("/") == place, "spec_version": spec_version})

    def files(self, state: RunState) -> Iterator[tuple[RunFolder, PartInfo]]:
        """Give every file that a state names, with the folder that it lies in."""
        yield RunFolder(open_writer(state.run_uri, self._options), state.run_id), state.snapshots
        counted = RunFolder(self.writer, state.run_id)
        yield from ((counted, part) for part in state.counted.parts)
