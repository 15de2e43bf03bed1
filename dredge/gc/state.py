"""The state of a lakeFS repository after a complete run, for optimized runs; `dredge.runs.versions` has its storage.

Every object of a repository is in at least one of these after such a run, so an optimized run reads only these:

    staged at the time of the run · in a range active then · in a slice outside `covered` ·
    in the pending list (`dredge.gc.pending`)

This module also finds earlier runs of the repository, and runs of other collectors.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from msgspec import Struct, field

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.config import CLEAN
from dredge.gc.index import store as index
from dredge.gc.index.ranges import Metaranges, Ranges, read_facts
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import PLAN, RUNS, Plan, Run, parse_plan
from dredge.runs import versions
from dredge.runs.clock import Coverage
from dredge.runs.folder import RunFolder, is_run_id, read_json, run_ids
from dredge.runs.payload import PartInfo, StepOutput, StepSummary, from_versioned
from dredge.runs.versions import Version, VersionStore
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

FORMAT = 5

type Current = versions.Current[RunState]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state after a run. Files are recorded with their digests and not copied."""

    repository: str
    namespace: str
    run_id: str
    run_uri: str  # folder of the run and of all parts without another place
    previous: str  # run of the state before; "" for a clean run
    mode: str
    started_at: datetime  # the store's time of the plan
    cutoff: datetime
    clean_run_id: str  # the last clean run
    clean_at: datetime  # the store's time of its plan
    optimized_runs: int  # runs since then
    all_commits: bool  # the repository had no rules, so every range file was active
    first_slice: str  # newest slice of the listing
    objects: int  # objects of the namespace at the last clean run
    staged: tuple[PartInfo, ...]  # staged addresses, also of referring repositories
    commits: PartInfo
    ranges: PartInfo
    named_ranges: PartInfo  # ranges of the metaranges in `named`
    named: PartInfo  # ranges by metarange
    path_ranges: PartInfo  # inactive ranges with single paths kept by the policy
    looked_at: PartInfo  # names of the checked files below `_lakefs/`
    gone: tuple[PartInfo, ...]  # sorted hashes of deleted and missing candidates
    covered: Coverage  # slices without another listing
    counted: CountedSet  # number of active ranges by address, in the folder of lease and index
    # format of the counted index. With another one, a dropped range would lower counts never raised by it.
    index_format: int
    sizes: tuple[LocatedSet, ...]  # sizes of the entries of branch heads, or more
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.index_format != index.FORMAT:
            raise FormatError(f"its counts are by an index of format {self.index_format}")

    @property
    def parts(self) -> list[PartInfo]:
        """All files in the run's folder."""
        return [
            *self.staged,
            self.commits,
            self.ranges,
            self.named_ranges,
            self.named,
            self.path_ranges,
            self.looked_at,
            *self.gone,
        ]


class StateStore(VersionStore[RunState]):
    """Reads and replaces the state."""

    def parse(self, value: Mapping[str, Any]) -> RunState:
        """Make a state from JSON; raises FormatError if it is damaged."""
        return from_versioned(RunState, value, FORMAT)

    def current(self, repository: str, namespace: str) -> Current:
        """Read the newest state and check whether a run may use it."""
        place = canonical_namespace(namespace)
        return self.find(
            {"repository": repository, "namespace": lambda found: canonical_namespace(found) == place}
        )

    def files(self, state: RunState) -> Iterator[tuple[RunFolder, PartInfo]]:
        """Return every file of a state with its folder."""
        run = RunFolder(open_writer(state.run_uri, self._options), state.run_id)
        yield from ((run, part) for part in state.parts)
        counted = RunFolder(self.writer, state.run_id)
        yield from ((counted, part) for part in state.counted.parts)
        for located in state.sizes:
            folder = RunFolder(open_writer(located.uri, self._options), state.run_id)
            yield from ((folder, part) for part in located.hashes.shards.values())


class Base(Struct, frozen=True):
    """A state and the folder of its run."""

    state: RunState
    folder: RunFolder
    _summaries: dict[str, StepSummary | None] = field(default_factory=dict)

    def summary(self, step: str) -> StepSummary | None:
        """Read the summary of a step once: that run has ended. None if it was removed."""
        if step not in self._summaries:
            self._summaries[step] = self.folder.read_summary(step)
        return self._summaries[step]

    def metaranges(self) -> Metaranges:
        """Read the metaranges with their ranges."""
        tables = self.folder.read_parts([self.state.named_ranges, self.state.named])
        return Metaranges.from_tables(*tables)

    def ranges(self) -> Ranges:
        """Read the active ranges."""
        return dict(read_facts(self.folder.read_part(self.state.ranges)))

    def looked_at(self) -> set[str]:
        """Read the names in `looked_at`."""
        return set(self.folder.read_part(self.state.looked_at)["name"].to_pylist())


def base_of(run: Run) -> Base | None:
    """Open the state before an optimized run; None for a clean run."""
    plan = run.plan
    if plan.mode == CLEAN or plan.state is None:
        return None
    return open_base(run, plan.state)


def open_base(run: Run, version: Version) -> Base:
    """Open a version of the state; raises FormatError if it was changed or removed."""
    try:
        state = StateStore(run.state, run.options).load(version)
    except (NotFoundError, KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{version.name}, the state for this run, was changed or removed: {error}. Nothing was deleted. Start a"
            " clean run."
        ) from None
    return Base(state, RunFolder(open_writer(state.run_uri, run.options), state.run_id))


log = logging.getLogger("dredge")

_FIRST, _AT_ONCE = 3, 16


def previous[O: StepOutput](run: Run, output: type[O]) -> O | None:
    """The output of a step in the newest earlier run with it; None without such a run."""
    for folder, plan in earlier_runs(run):
        if plan is None:
            continue
        try:
            found = folder.read_output(output)
        except UnavailableError:
            raise
        except DredgeError:
            continue
        if found is not None:
            return found
    return None


def earlier_runs(run: Run) -> Iterator[tuple[RunFolder, Plan | None]]:
    """Yield the runs of this repository planned before this one, newest first, dry and failed runs too; the plan is
    None if it is unreadable, and then the repository is unknown.

    They may be beside this run, in the repository's own place, or beside the run before. Many repositories may share
    a run root, so plans are read as long as the caller asks for more.
    """
    there = [(run_id, root) for root in _roots(run) for run_id in run_ids(open_writer(root, run.options))]
    older = sorted(item for item in there if item[0] > run.plan.run_id)

    def opened(item: tuple[str, str]) -> tuple[RunFolder, Plan | None] | None:
        return _opened(run, *item)

    # The first runs are usually enough.
    of_all = chain(map(opened, older[:_FIRST]), ordered_map(opened, older[_FIRST:], _AT_ONCE))
    yield from (found for found in of_all if found is not None)


def _roots(run: Run) -> list[str]:
    plan = run.plan
    uris = [plan.run_uri.rpartition("/")[0], f"{plan.namespace.rstrip('/')}/{RUNS}"]
    if plan.state is not None:
        try:
            uris.append(open_base(run, plan.state).state.run_uri.rpartition("/")[0])
        except FormatError as error:
            log.info("run %s: the place of the run before cannot be read: %s", plan.run_id, error)
    return list({canonical_namespace(uri): uri for uri in reversed(uris)}.values())


def _opened(run: Run, run_id: str, root: str) -> tuple[RunFolder, Plan | None] | None:
    writer = open_writer(f"{root}/{run_id}", run.options)
    folder = RunFolder(writer, run_id)
    try:
        plan = parse_plan(read_json(writer, PLAN))
    except NotFoundError:
        return None  # another collector's
    except (ConfigError, FormatError) as error:
        log.info("run %s: the plan of run %s cannot be read: %s", run.plan.run_id, run_id, error)
        return folder, None
    ours = plan.repository == run.plan.repository and canonical_namespace(
        plan.namespace
    ) == canonical_namespace(run.plan.namespace)
    return (folder, plan) if ours else None


def foreign_runs(run: Run) -> list[str]:
    """Ids of the runs of lakeFS's own collector since this run was planned. They are in the same folder, without a
    plan."""
    found = []
    for folder in run.reader.list_level(f"{RUNS}/").folders:
        run_id = folder.rstrip("/").rpartition("/")[2]
        if run_id == run.plan.run_id or not is_run_id(run_id):
            continue
        if descending_time(run_id) < run.plan.created_at.replace(microsecond=0):
            continue
        if f"{folder}{PLAN}" not in {info.key for info in run.reader.list_level(folder).objects}:
            found.append(run_id)
    return sorted(found)
