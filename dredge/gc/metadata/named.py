"""The commits of a repository, by whether a branch or tag leads to them or a rule keeps them, and what is at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import FormatError, NotFoundError
from dredge.gc.insight.base_run import all_commits
from dredge.gc.list_committed import Graph, active_by_rules, load_graph
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords, Standing, look
from dredge.gc.namespaces import METADATA
from dredge.kv.rows import show_key
from dredge.lakefs import LakeFS
from dredge.lakefs.files import messages
from dredge.lakefs.files.metaranges import read_metarange
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

_IMPORTS, _TASKS, _PREPARE = b"imports/", b"tasks/", b"GCPC"


@dataclass(frozen=True, slots=True)
class Place:
    """A repository.

    Attributes:
        repository: name in lakeFS.
        namespace: URI of its storage namespace.
    """

    repository: str
    namespace: str


@dataclass(slots=True)
class History:
    """Commits, and what may be about to make some.

    Attributes:
        kept: that a branch or a tag leads to, expired or not, or that the rules keep.
        unreachable: all others that are known.
        complete: whether every commit is known; else only those that refs lead to are.
        named: metaranges that other records name.
        at_work: imports and tasks that have not ended, in words.
    """

    kept: Graph
    unreachable: Graph = field(default_factory=dict)
    complete: bool = False
    named: set[str] = field(default_factory=set)
    at_work: list[str] = field(default_factory=list)


def read_history(
    client: LakeFS, repository: str, namespace: str, now: datetime, access: KVAccess | None
) -> History:
    """Read the commits of a repository: those that refs lead to, and all others where the records can be read.

    Args:
        client: the lakeFS server.
        repository: name.
        namespace: URI of its storage namespace.
        now: for the rules.
        access: to lakeFS's key-value store; None knows only what refs lead to.

    Raises:
        RefusedError: history cannot be read to its root, or the store is another installation's.
    """
    branches, tags = client.branches(repository), client.tags(repository)
    graph = load_graph(client, repository, branches)
    load_graph(client, repository, tags, graph)
    if access is None:
        return History(graph)
    known = {**all_commits(access, repository, namespace), **graph}
    rules = client.rules(repository)
    active = known.keys() if rules is None else active_by_rules(known, branches, rules, now)
    found = History(
        kept={item: commit for item, commit in known.items() if item in graph or item in active},
        unreachable={
            item: commit for item, commit in known.items() if item not in graph and item not in active
        },
        complete=True,
    )
    with access.open() as store, store.view() as view:
        records = RepositoryRecords(Place(repository, namespace), view, store.location)
        found.named, found.at_work = read_work(records)
    return found


def read_work(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    """Read what imports and tasks say: metaranges that they name, and those that have not ended, in words."""
    named, at_work = set[str](), list[str]()
    for name, value in records.rows(_IMPORTS):
        status = messages.decode(messages.ImportStatusData, value, show_key(_IMPORTS, name))
        if status.metarange_id:
            named.add(status.metarange_id)
        if not status.completed and not status.error:
            at_work.append(f"import {status.id}")
    for name, value in records.rows(_TASKS):
        # Every kind of task begins with the same member. Those that prepare a collection write no ranges.
        of_task = messages.decode(messages.RepositoryRestoreStatus, value, show_key(_TASKS, name))
        if not of_task.task.done and not name.startswith(_PREPARE):
            at_work.append(f"{of_task.task.operation or 'task'} {of_task.task.id}")
    return named, at_work


_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asking:
    """Whose records are read.

    Attributes:
        client: the lakeFS server.
        plan: the repository.
        access: to lakeFS's key-value store.
    """

    client: LakeFS
    plan: Place
    access: KVAccess


@dataclass(slots=True)
class Names:
    """What commits name at one time.

    Attributes:
        files: names of range and metarange files.
        missing: metaranges of commits whose files are not there, so that what they name is unknown.
        at_work: imports and tasks that have not ended, in words.
        standing: what the records are worth.
    """

    files: set[str]
    missing: list[str]
    at_work: list[str]
    standing: Standing


@dataclass(slots=True)
class NamesReader:
    """Finds what commits name, again and again; a metarange is read once.

    Attributes:
        asking: whose records are read.
        reader: on the storage namespace.
        ranges: ids of the ranges of each metarange that was read.
    """

    asking: Asking
    reader: ObjectReader
    ranges: dict[str, list[str]] = field(default_factory=dict)

    def read(self) -> Names:
        """Find what is named now.

        Raises:
            RefusedError: the key-value store is another installation's.
            FormatError: a record or a metarange is damaged.
        """
        (metaranges, at_work), standing = look(self.asking, _read_records, self.asking.access)
        files, missing = self.closure(metaranges)
        return Names(files, missing, at_work, standing)

    def closure(self, metaranges: Iterable[str]) -> tuple[set[str], list[str]]:
        """Metaranges and the ranges that they name, and those metaranges that are not there."""
        wanted = sorted(set(filter(None, metaranges)))
        new = [item for item in wanted if item not in self.ranges]
        missing = []
        for metarange_id, found in zip(new, ordered_map(self._ranges_of, new, _AT_ONCE), strict=True):
            if found is None:
                missing.append(metarange_id)
            else:
                self.ranges[metarange_id] = found
        named = (item for metarange_id in wanted for item in self.ranges.get(metarange_id, []))
        return {*wanted, *named}, missing

    def _ranges_of(self, metarange_id: str) -> list[str] | None:
        key = METADATA + metarange_id
        try:
            found = read_metarange(self.reader.get(key), key, expected_id=metarange_id)
        except NotFoundError:
            return None
        return [info.id for info in found.ranges]

    def of_tables(self, names: Sequence[str]) -> set[str]:
        """Names of ranges in those of some files that are metaranges.

        Raises:
            NotFoundError: a file is not there.
        """
        found: set[str] = set()
        for key, data in self.reader.get_many([METADATA + name for name in names], _AT_ONCE):
            try:
                metarange = read_metarange(data, key)
            except FormatError:
                continue  # a range, or something else
            found.update(info.id for info in metarange.ranges)
        return found


def _read_records(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    # What is at work before commits: what ends meanwhile has written its commit by then.
    named, at_work = read_work(records)
    records.branches()  # their heads show whose store it is
    return named | {commit.metarange_id for commit in records.commits().values()}, at_work
