"""The analysed run: its listing, staging and history; commits from lakeFS's key-value store.

All of it describes the same moment, so figures from it fit together; they are as old as the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.index.ranges import Metaranges
from dredge.gc.list_committed import HISTORY, Graph, ListCommittedOutput
from dredge.gc.mark_uncommitted import KVAccess, MarkUncommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.referring import Referred
from dredge.gc.run import PLAN, RUNS, Plan, Run, open_state, parse_plan
from dredge.gc.slice_listing import SliceListingOutput
from dredge.kv.rows import RowView
from dredge.lakefs import Commit, Ref, Rules
from dredge.lakefs.files import records
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key
from dredge.runs.folder import RunFolder, read_json, run_ids
from dredge.runs.payload import from_json
from dredge.sets.hashes import Hashes, read_hashes
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

_AHEAD = 4
_LOOK_BACK = 200


@dataclass(slots=True)
class BaseRun:
    """The results of a run."""

    plan: Plan
    folder: RunFolder
    listing: SliceListingOutput
    staged: MarkUncommittedOutput
    committed: ListCommittedOutput
    reader: ObjectReader
    state: ObjectWriter  # the folder of lease and index; only read

    @property
    def text(self) -> str:
        """Its name in messages: "run c9… of 2026-01-02 03:04 UTC"."""
        return f"run {self.plan.run_id} of {self.plan.created_at:%Y-%m-%d %H:%M} UTC"

    @property
    def is_whole(self) -> bool:
        """Whether the run listed everything."""
        return self.plan.mode == CLEAN

    @property
    def rules(self) -> Rules | None:
        """The repository's rules at the time of the run."""
        found = self.committed.rules
        return None if found is None else from_json(Rules, found)

    def history(self) -> History:
        """Read the history."""
        return read_history(self.folder, self.committed)

    def referred(self) -> Iterator[Hashes]:
        """Hashes of the addresses that other repositories named; of the run's own settings."""
        for item in self.committed.referring:
            for part in from_json(Referred, item).live.shards.values():
                yield read_hashes(self.folder, part)

    def referring_with(self, hashed: np.uint64) -> list[str]:
        """Names of other repositories that named an address; of the run's own settings."""
        found = [from_json(Referred, item) for item in self.committed.referring]
        wanted = [np.array([hashed], np.uint64)]
        return [item.repository for item in found if item.live.find(self.folder, wanted)[0].any()]

    def unnamed_metaranges(self) -> list[str]:
        """Read the ids, in order, of the metaranges counted as active commits without an active commit."""
        unnamed = self.folder.read_part(self.committed.unnamed_metaranges)["metarange_id"]
        active = self.folder.read_part(self.committed.commits)["metarange_id"]
        return sorted({*unnamed.to_pylist()}.difference(active.to_pylist()))


@dataclass(slots=True)
class History:
    """Refs, commits and active commits of a run."""

    graph: Graph  # every commit reachable from refs
    branches: list[Ref]
    tags: list[Ref]
    # metarange id by commit id, of the active commits; those outside the graph are dangling
    active: dict[str, str]
    heads: set[str]  # ids of all branch heads seen during the run
    metaranges: Metaranges  # of the active commits, with their ranges
    unnamed: set[str]  # ids of the metaranges counted as active commits
    # rows of the active ranges, including ranges without a known commit
    ranges_table: pa.Table = field(repr=False)

    @property
    def dangling(self) -> set[str]:
        """Active commits without a ref."""
        return self.active.keys() - self.graph.keys() - self.heads

    def metarange_of(self, commit_id: str) -> str:
        """Metarange id of a commit; "" for an empty commit."""
        found = self.active.get(commit_id)
        return self.graph[commit_id].metarange_id if found is None else found


def read_history(folder: RunFolder, committed: ListCommittedOutput) -> History:
    """Read the history noted by a run.

    Raises:
        FormatError: a damaged file.
    """
    folder.read_ahead(
        [
            committed.commits,
            committed.branches,
            committed.refs,
            committed.history,
            committed.named_ranges,
            committed.metaranges,
            committed.unnamed_metaranges,
            committed.ranges,
        ]
    )
    commits = folder.read_part(committed.commits)
    heads = folder.read_part(committed.branches)["commit_id"].to_pylist()
    refs = folder.read_part(committed.refs).to_pylist()
    named = {"branch": list[Ref](), "tag": list[Ref]()}
    for row in refs:
        named[row["kind"]].append(Ref(row["name"], row["commit_id"]))
    return History(
        graph=dict(_commits(folder.read_part(committed.history))),
        branches=named["branch"],
        tags=named["tag"],
        active=dict(zip(commits["commit_id"].to_pylist(), commits["metarange_id"].to_pylist(), strict=True)),
        heads={*heads, *(branch.commit_id for branch in named["branch"])},
        metaranges=Metaranges.from_tables(
            folder.read_part(committed.named_ranges), folder.read_part(committed.metaranges)
        ),
        unnamed=set(folder.read_part(committed.unnamed_metaranges)["metarange_id"].to_pylist()),
        ranges_table=folder.read_part(committed.ranges),
    )


def _commits(table: pa.Table) -> Iterator[tuple[str, Commit]]:
    columns = [
        table[name].to_pylist() for name in ("commit_id", "parents", "created_at", "metarange_id", "version")
    ]
    for commit_id, parents, created_at, metarange_id, version in zip(*columns, strict=True):
        yield commit_id, Commit(commit_id, tuple(parents), created_at, metarange_id, version)


def open_base(run_uri: str, options: StorageOptions | None = None) -> BaseRun:
    """Open a run by the URI of its folder.

    Raises:
        ConfigError: no run at the URI, or a run without a complete mark.
        FormatError: the run is damaged.
    """
    folder_uri = run_uri.rstrip("/")
    writer = open_writer(folder_uri, options)
    try:
        plan = parse_plan(read_json(writer, PLAN))
    except NotFoundError:
        raise ConfigError(
            f"{run_uri} holds no {PLAN}: it is not the folder of a run. `dredge gc runs` lists them."
        ) from None
    found = _open(RunFolder(writer, folder_uri.rpartition("/")[2]), plan, options)
    if found is None:
        raise ConfigError(f"{run_uri} has no complete mark. Start a new run.")
    return found


def base_of_run(run: Run) -> BaseRun | None:
    """Use a run as the analysed run; None when its mark is incomplete."""
    return _open(run.folder, run.plan, run.options)


def find_base(
    root: str, repository: str, options: StorageOptions | None = None, whole: bool = True
) -> BaseRun | None:
    """Find the newest run of a repository with a complete mark.

    Args:
        root: URI of a storage namespace, or the run root.
        whole: only a run with a complete listing.
    """
    for folder, plan in runs_below(root, options):
        if plan.repository != repository or (whole and plan.mode != CLEAN):
            continue
        try:
            found = _open(folder, plan, options)
        except DredgeError:
            continue
        if found is not None:
            return found
    return None


def runs_below(root: str, options: StorageOptions | None = None) -> Iterator[tuple[RunFolder, Plan]]:
    """Yield the newest runs with their plans, newest first; runs of other collectors and formats are left out.

    Args:
        root: URI of a storage namespace, or the run root.
    """
    place = root.rstrip("/")
    ids = run_ids(open_reader(place, options))
    if not ids:
        place = f"{place}/{RUNS}"
        ids = run_ids(open_reader(place, options))

    def opened(run_id: str) -> tuple[RunFolder, Plan] | None:
        folder = RunFolder(open_writer(f"{place}/{run_id}", options), run_id)
        try:
            return folder, parse_plan(folder.read_json(PLAN))
        except DredgeError:
            return None

    yield from filter(None, ordered_map(opened, ids[:_LOOK_BACK], _AHEAD))


def _open(folder: RunFolder, plan: Plan, options: StorageOptions | None) -> BaseRun | None:
    steps = (SliceListingOutput.STEP, MarkUncommittedOutput.STEP, ListCommittedOutput.STEP)
    found = folder.read_summaries(steps)
    listing, staged, committed = (found[step] for step in steps)
    if listing is None or staged is None or committed is None:
        return None
    if not committed.parts_below(f"{ListCommittedOutput.STEP}/{HISTORY}-"):
        return None
    return BaseRun(
        plan,
        folder,
        SliceListingOutput.of(listing),
        MarkUncommittedOutput.of(staged),
        ListCommittedOutput.of(committed),
        open_reader(plan.namespace, options),
        open_state(plan.namespace, options),
    )


_COMMITS = b"commits/"


def repository_record(view: RowView, location: str, repository: str, namespace: str) -> Repository:
    """Read the record of a repository.

    Args:
        namespace: URI of its storage namespace, from the server.
    """
    key = repository_key(repository)
    row = next(iter(view.scan(REPOSITORIES_PARTITION, key)), None)
    record = None if row is None or row.key != key else Repository.decode(row.value)
    if record is None or canonical_namespace(record.storage_namespace) != canonical_namespace(namespace):
        raise RefusedError(
            f"{location} has no repository {repository} on {namespace}: it is another installation's store. Name the"
            " database of this server."
        )
    return record


def all_commits(access: KVAccess, repository: str, namespace: str) -> Graph:
    """Read every commit of a repository, with or without a ref.

    Raises:
        RefusedError: the store belongs to another server.
        FormatError: an unreadable record.
    """
    found: Graph = {}
    with access.open() as store, store.view() as view:
        partition = repository_record(view, store.location, repository, namespace).partition
        for row in view.scan(partition, _COMMITS):
            if not row.key.startswith(_COMMITS):
                break
            commit = _commit(records.Commit.decode(row.value))
            found[commit.id] = commit
    return found


def _commit(record: records.Commit) -> Commit:
    return Commit(record.id, record.parents, record.creation_date, record.metarange_id, record.version)
