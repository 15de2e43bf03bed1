"""The state of a lakeFS repository's runs; `dredge.runs.versions` says how it lies and moves on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dredge.gc.namespaces import canonical_namespace
from dredge.gc.state.model import FORMAT, RunState
from dredge.runs import versions
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_versioned
from dredge.runs.summary import PartInfo
from dredge.runs.versions import DISTRUSTED, POINTER, VERSIONS, VersionStore
from dredge.storage import open_writer

type Current = versions.Current[RunState]


class StateStore(VersionStore[RunState]):
    """Reads the state and moves it on."""

    def parse(self, value: Mapping[str, Any]) -> RunState:
        """Give the state that `to_json` made; raises FormatError when it is none."""
        return from_versioned(RunState, value, FORMAT)

    def current(self, repository: str, namespace: str) -> Current:
        """Read the newest state and see whether a run may build on it.

        Args:
            repository: that it must be about.
            namespace: that it must be about.
        """
        place = canonical_namespace(namespace)
        return self.find(
            {"repository": repository, "namespace": lambda found: canonical_namespace(found) == place}
        )

    def files(self, state: RunState) -> Iterator[tuple[RunFolder, PartInfo]]:
        """Give every file that a state names, with the folder that it lies in."""
        run = RunFolder(open_writer(state.run_uri, self._options), state.run_id)
        yield from ((run, part) for part in state.parts)
        counted = RunFolder(self.writer, state.run_id)
        yield from ((counted, part) for part in state.counted.parts)
        for located in state.sizes:
            folder = RunFolder(open_writer(located.uri, self._options), state.run_id)
            yield from ((folder, part) for part in located.hashes.shards.values())


__all__ = ["DISTRUSTED", "POINTER", "VERSIONS", "Current", "StateStore"]
