"""The commits of a repository, and the range and metarange files in use by them.

Every commit counts, reachable or not: its record can be read, and then its files are needed. Metaranges of imports
count as well. A young metarange file, or one of a running import, may soon belong to a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import FormatError, NotFoundError
from dredge.gc.list_committed import Graph, active_by_rules, load_graph
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords, StoreCheck, read_checked
from dredge.gc.namespaces import METADATA
from dredge.kv.rows import show_key
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import read_metarange
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

_IMPORTS, _TASKS, _PREPARE = b"imports/", b"tasks/", b"GCPC"
_AT_ONCE = 8


@dataclass(slots=True)
class History:
    """The commits of a repository."""

    kept: Graph  # reachable from a branch or tag, or active by the rules
    unreachable: Graph = field(default_factory=dict)  # all other known commits
    complete: bool = False  # whether all commits are known; else only those reachable from refs
    named: set[str] = field(default_factory=set)  # metaranges of imports
    at_work: list[str] = field(default_factory=list)  # running imports and tasks, as text


def read_history(
    client: LakeFSClient, repository: str, namespace: str, now: datetime, access: KVAccess | None
) -> History:
    """Read the commits of a repository; without access to the key-value store only those reachable from refs."""
    branches, tags = client.branches(repository), client.tags(repository)
    graph = load_graph(client, repository, branches)
    load_graph(client, repository, tags, graph)
    if access is None:
        return History(graph)
    with access.records(repository, namespace) as records:
        known = records.commits() | graph
        named, at_work = read_work(records)
    rules = client.rules(repository)
    active = known.keys() if rules is None else active_by_rules(known, branches, rules, now)
    kept = {item: commit for item, commit in known.items() if item in graph or item in active}
    unreachable = {item: commit for item, commit in known.items() if item not in kept}
    return History(kept, unreachable, complete=True, named=named, at_work=at_work)


def read_work(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    """Read the metaranges of imports, and the running imports and tasks as text."""
    named, at_work = set[str](), list[str]()
    for name, value in records.rows(_IMPORTS):
        status = messages.decode(messages.ImportStatusData, value, show_key(_IMPORTS, name))
        if status.metarange_id:
            named.add(status.metarange_id)
        if not status.completed and not status.error:
            at_work.append(f"import {status.id}")
    for name, value in records.rows(_TASKS):
        # Every kind of task has the same first member. Tasks of prepare_commits write no ranges.
        of_task = messages.decode(messages.RepositoryRestoreStatus, value, show_key(_TASKS, name))
        if not of_task.task.done and not name.startswith(_PREPARE):
            at_work.append(f"{of_task.task.operation or 'task'} {of_task.task.id}")
    return named, at_work


@dataclass(slots=True)
class Names:
    """Files in use by commits, at one time."""

    files: set[str]  # names of range and metarange files
    missing: list[str]  # missing metaranges of commits; their ranges are unknown
    at_work: list[str]  # running imports and tasks, as text
    check: StoreCheck  # of the key-value store


@dataclass(slots=True)
class NamesReader:
    """Reads the files in use repeatedly, each metarange once."""

    client: LakeFSClient
    repository: str
    namespace: str
    access: KVAccess
    reader: ObjectReader
    ranges: dict[str, list[str]] = field(default_factory=dict)  # ids of the ranges by metarange

    def read(self) -> Names:
        """Read the files in use now."""
        (metaranges, at_work), check = read_checked(
            self.client, self.repository, self.namespace, _read_records, self.access
        )
        files, missing = self.closure(metaranges)
        return Names(files, missing, at_work, check)

    def closure(self, metaranges: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return metaranges with their ranges, and the missing metaranges."""
        return close(self.reader, metaranges, self.ranges)

    def read_tables(self, names: Sequence[str]) -> set[str]:
        """Return the ranges of the metaranges among some files."""
        found: set[str] = set()
        for key, data in self.reader.get_many([METADATA + name for name in names], _AT_ONCE):
            try:
                metarange = read_metarange(data, key)
            except FormatError:
                continue  # a range or another file
            found.update(info.id for info in metarange.ranges)
        return found


def close(
    reader: ObjectReader, metaranges: Iterable[str], known: dict[str, list[str]]
) -> tuple[set[str], list[str]]:
    """Return metaranges with their ranges, and the missing metaranges; `known` gets the ids of the ranges read."""
    wanted = sorted(set(filter(None, metaranges)))
    new = [item for item in wanted if item not in known]
    read = dict(zip(new, ordered_map(lambda name: read_ranges(reader, name), new, _AT_ONCE), strict=True))
    known |= {item: ranges for item, ranges in read.items() if ranges is not None}
    named = (item for metarange_id in wanted for item in known.get(metarange_id, ()))
    return {*wanted, *named}, [item for item in new if read[item] is None]


def read_ranges(reader: ObjectReader, metarange_id: str) -> list[str] | None:
    """Read the ids of a metarange's ranges; None if it is missing."""
    key = METADATA + metarange_id
    try:
        found = read_metarange(reader.get(key), key, expected_id=metarange_id)
    except NotFoundError:
        return None
    return [info.id for info in found.ranges]


def _read_records(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    # Running tasks before commits: a task finished in between has written its commit.
    named, at_work = read_work(records)
    records.branches()  # their heads identify the store's server
    return named | {commit.metarange_id for commit in records.commits().values()}, at_work
