"""What a complete run leaves for the next one.

Everything that exists in a repository after such a run is at least one of these, so the next run needs to look
at nothing else:

    staged when the run looked · named by a range that was active then · in a slice that is not covered ·
    in the pending list (`dredge.gc.pending`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.gc.config import CLEAN
from dredge.gc.index import store as index
from dredge.gc.index.metaranges import Metaranges
from dredge.gc.index.ranges import Ranges, facts_of
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.runs import versions
from dredge.runs.coverage import Coverage
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_versioned
from dredge.runs.summary import PartInfo
from dredge.runs.versions import DISTRUSTED, POINTER, VERSIONS, Version, VersionStore
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import open_writer

FORMAT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. Files are named, with their digests, not copied.

    Attributes:
        repository: name in lakeFS.
        namespace: URI of its storage namespace.
        run_id: the run it came from.
        run_uri: that run's folder, where all parts are that name no other place.
        previous: run whose state this one built on; "" for a clean run.
        mode: "clean" or "optimized".
        started_at: the store's time when the run was planned.
        cutoff: only objects last modified strictly before it were candidates.
        clean_run_id: the last clean run.
        clean_at: when that one was planned.
        optimized_runs: runs since then.
        all_commits: the repository had no rules, so that every range file counted as active.
        first_slice: newest slice that the listing saw.
        objects: objects in the namespace, as the last clean run counted them.
        staged: files with the addresses that were staged, also in repositories that refer to this one.
        commits: file of the active commits.
        ranges: file of the active ranges.
        named_ranges: file of the ranges that metaranges name.
        named: file that says which metarange names which of them.
        path_ranges: file of ranges that are not active, but of which the policy kept single paths.
        looked_at: file with names of files below `_lakefs/` that need no further look.
        gone: files with sorted hashes of what the run deleted, or found gone when it was to delete it.
        covered: slices that need not be listed again.
        counted: how many active ranges name each address, in the folder of lease and index.
        index_format: of the index that this was counted by. By another one a range would take away, when it is
            dropped, counts of addresses to which it never added.
        sizes: sizes of the entries of branch heads, or more.
        format: number of the format of states.
    """

    repository: str
    namespace: str
    run_id: str
    run_uri: str
    previous: str
    mode: str
    started_at: datetime
    cutoff: datetime
    clean_run_id: str
    clean_at: datetime
    optimized_runs: int
    all_commits: bool
    first_slice: str
    objects: int
    staged: tuple[PartInfo, ...]
    commits: PartInfo
    ranges: PartInfo
    named_ranges: PartInfo
    named: PartInfo
    path_ranges: PartInfo
    looked_at: PartInfo
    gone: tuple[PartInfo, ...]
    covered: Coverage
    counted: CountedSet
    index_format: int
    sizes: tuple[LocatedSet, ...]
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.index_format != index.FORMAT:
            raise FormatError(f"counts by an index of format {self.index_format}")

    @property
    def parts(self) -> list[PartInfo]:
        """Every file in the run's own folder."""
        single = [getattr(self, name) for name in _FILES]
        return [*self.staged, *single, *self.gone]


_FILES = ("commits", "ranges", "named_ranges", "named", "path_ranges", "looked_at")


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


@dataclass(frozen=True, slots=True)
class Base:
    """What an earlier run left.

    Attributes:
        state: the state.
        folder: of the run that left it.
    """

    state: RunState
    folder: RunFolder

    def metaranges(self) -> Metaranges:
        """Which metarange names which ranges."""
        tables = self.folder.read_parts([self.state.named_ranges, self.state.named])
        return Metaranges.from_tables(*tables)

    def ranges(self) -> Ranges:
        """The ranges that were active."""
        return dict(facts_of(self.folder.read_part(self.state.ranges)))

    def looked_at(self) -> set[str]:
        """Files below `_lakefs/` that need no further look."""
        return set(self.folder.read_part(self.state.looked_at)["name"].to_pylist())


def base_of(run: Run) -> Base | None:
    """Open the state that a run builds on; None for a clean run.

    Raises:
        FormatError: the state that the plan names is not as it was.
    """
    plan = run.plan
    if plan.mode == CLEAN or plan.state is None:
        return None
    return open_base(run, plan.state)


def open_base(run: Run, version: Version) -> Base:
    """Open a version of the state; raises FormatError when it is not as it was."""
    try:
        state = StateStore(run.state, run.options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, which the run builds on, is not as it was: {error}. Nothing was deleted. Start"
            " a clean run."
        ) from None
    return Base(state, RunFolder(open_writer(state.run_uri, run.options), state.run_id))
