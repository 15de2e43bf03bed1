"""The files in `_lakefs/` by kind, and their report: which ones do commits use? Only reads.

Every commit counts, reachable or not: its record can be read, and then its files are needed. Metaranges of imports
count as well. A young metarange file, or one of a running import, may soon belong to a commit.

ranges and metaranges of commits → kept or unreachable
other files older than the minimum age are read, as only the content shows the kind:
    a table of a refs dump → kept · any other table → garbage · no table → other
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError
from dredge.gc.insight.base_run import Amount
from dredge.gc.list_committed import Graph, active_by_rules, load_graph
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords, StoreCheck, read_checked
from dredge.gc.namespaces import METADATA, check_namespaces
from dredge.kv.rows import show_key
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files import messages
from dredge.lakefs.files.ranges import DAMAGED as UNREADABLE
from dredge.lakefs.files.ranges import DUMP, is_table_id, read_kinds, read_metarange
from dredge.lakefs.files.sstable import METARANGES, RANGES
from dredge.runs.payload import to_json
from dredge.runs.report import size_text
from dredge.storage import ObjectInfo, ObjectReader, open_reader
from dredge.storage.parallel import ordered_map

_IMPORTS, _TASKS, _PREPARE = b"imports/", b"tasks/", b"GCPC"


class History(Struct):
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


class Names(Struct):
    """Files in use by commits, at one time."""

    files: set[str]  # names of range and metarange files
    missing: list[str]  # missing metaranges of commits; their ranges are unknown
    at_work: list[str]  # running imports and tasks, as text
    check: StoreCheck  # of the key-value store


class NamesReader(Struct):
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
        for key, data in self.reader.get_many([METADATA + name for name in names]):
            try:
                found.update(info.id for info in read_metarange(data, key))
            except FormatError:
                continue  # a range or another file
        return found


def close(
    reader: ObjectReader, metaranges: Iterable[str], known: dict[str, list[str]]
) -> tuple[set[str], list[str]]:
    """Return metaranges with their ranges, and the missing metaranges; `known` gets the ids of the ranges read."""
    wanted = sorted(set(filter(None, metaranges)))
    new = [item for item in wanted if item not in known]
    read = dict(zip(new, ordered_map(lambda name: read_ranges(reader, name), new), strict=True))
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
    return [info.id for info in found]


def _read_records(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    # Running tasks before commits: a task finished in between has written its commit.
    named, at_work = read_work(records)
    records.branches()  # their heads identify the store's server
    return named | {commit.metarange_id for commit in records.commits().values()}, at_work


KEPT, UNREACHABLE, YOUNG, DUMPS = "kept", "unreachable", "young", "dumps"
GARBAGE_RANGES, GARBAGE_METARANGES, DAMAGED, OTHER = (
    "garbage_ranges",
    "garbage_metaranges",
    "damaged",
    "other",
)
KINDS = {
    KEPT: "used by commits reachable from branches or tags, or active by the rules",
    UNREACHABLE: "used only by other commits",
    YOUNG: "younger than the minimum age: a commit may soon use them",
    GARBAGE_RANGES: "ranges without a commit",
    GARBAGE_METARANGES: "metaranges without a commit",
    DUMPS: "files of refs dumps",
    DAMAGED: "with the name of a range or metarange, and not readable",
    OTHER: "other files",
}
"""Kinds of files in the order of the report."""
_SHOWN = (GARBAGE_RANGES, GARBAGE_METARANGES, DAMAGED)
_EXAMPLES_MAX = 10
_OF_TABLES = {
    METARANGES: GARBAGE_METARANGES,
    RANGES: GARBAGE_RANGES,
    DUMP: DUMPS,
    UNREADABLE: DAMAGED,
}


class Sorted(Struct):
    """Files of `_lakefs/` by kind."""

    amounts: dict[str, Amount] = field(default_factory=lambda: {kind: Amount() for kind in KINDS})
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # a few names by kind
    # names of all files of the two kinds of garbage
    garbage: dict[str, list[str]] = field(
        default_factory=lambda: {GARBAGE_METARANGES: [], GARBAGE_RANGES: []}
    )

    def add(self, kind: str, info: ObjectInfo) -> None:
        """Count a file."""
        self.amounts[kind].add(1, info.size)
        if kind in self.garbage:
            self.garbage[kind].append(info.key.removeprefix(METADATA))
        if len(self.examples[kind]) < _EXAMPLES_MAX:
            self.examples[kind].append(info.key.removeprefix(METADATA))


def find_named(
    reader: ObjectReader, kept: Collection[str], unreachable: Collection[str]
) -> tuple[set[str], set[str], list[str]]:
    """Return the files in use by reachable or active commits, those only in use by others, and the missing
    metaranges; given are their metaranges, "" is empty content."""
    of_kept, missing = close(reader, kept, {})
    others, more = close(reader, {*unreachable} - of_kept, {})
    return of_kept, others - of_kept, sorted([*missing, *more])


def sort_files(
    reader: ObjectReader,
    files: Sequence[ObjectInfo],
    cutoff: datetime,
    kept: Collection[str],
    unreachable: Collection[str] = (),
) -> Sorted:
    """Sort the files directly in `_lakefs/`, listed before the commits were read, by kind: in use by reachable or
    active commits, only by others, or by none; of these, files written at the cutoff or later are young."""
    found = Sorted()
    unnamed: dict[str, ObjectInfo] = {}
    for info in files:
        name = info.key.removeprefix(METADATA)
        if name in kept:
            found.add(KEPT, info)
        elif name in unreachable:
            found.add(UNREACHABLE, info)
        elif not is_table_id(name):
            found.add(OTHER, info)
        elif info.last_modified >= cutoff:
            found.add(YOUNG, info)
        else:
            unnamed[name] = info
    for name, kind in read_kinds(reader, unnamed.values()).items():
        found.add(_OF_TABLES[kind], unnamed[name])
    return found


class MetadataReport(Struct, frozen=True):
    """The files in `_lakefs/`."""

    repository: str
    history: History
    files: Sorted
    missing: list[str]  # missing metaranges of commits

    def figures(self) -> dict[str, Any]:
        """Return figures and examples as JSON."""
        return {
            "repository": self.repository,
            "complete": self.history.complete,
            "commits": len(self.history.kept) + len(self.history.unreachable),
            "unreachable_commits": sorted(self.history.unreachable),
            "at_work": self.history.at_work,
            "missing_metaranges": self.missing,
            "kinds": {kind: to_json(amount) for kind, amount in self.files.amounts.items()},
            "examples": {kind: names for kind, names in self.files.examples.items() if kind in _SHOWN},
        }


def report_metadata(
    client: LakeFSClient,
    repository: str,
    now: datetime,
    min_age: timedelta,
    access: KVAccess | None = None,
) -> MetadataReport:
    """Find range and metarange files without a commit. Changes no data. `now`: the time, within minutes of the store's.
    `min_age`: younger files are skipped. `access`: lakeFS's key-value store; None reads only commits reachable from
    refs. Raises RefusedError: the history is not readable to its root, the key-value store is another installation's,
    or the namespace overlaps with another repository's, whose commits may use the files."""
    namespace = client.repository(repository).namespace
    check_namespaces(repository, {found.name: found.namespace for found in client.repositories()})
    reader = open_reader(namespace)
    # Files before commits: files of new commits are then in use by a read commit.
    files = reader.list_level(METADATA).objects
    history = read_history(client, repository, namespace, now, access)
    kept = {commit.metarange_id for commit in history.kept.values()} | history.named
    unreachable = {commit.metarange_id for commit in history.unreachable.values()}
    of_kept, of_others, missing = find_named(reader, kept, unreachable)
    found = sort_files(reader, files, now - min_age, of_kept, of_others)
    return MetadataReport(repository, history, found, missing)


def report_lines(report: MetadataReport) -> Iterator[str]:
    """Format a report for the terminal."""
    history, amounts = report.history, report.files.amounts
    commits = len(history.kept) + len(history.unreachable)
    known = "all commits" if history.complete else "commits reachable from branches and tags"
    yield f"{report.repository}: {commits:,} commits were read ({known})"
    yield f"{'FILES':>12}{'SIZE':>12}  KIND"
    for kind, words in KINDS.items():
        if amounts[kind].objects:
            yield f"{amounts[kind].objects:>12,}{size_text(amounts[kind].size_bytes):>12}  {words}"
    if history.unreachable:
        yield f"{len(history.unreachable):,} commits are unreachable from branches and tags, and expired by the rules"
    if not history.complete:
        yield (
            "* Unreachable commits are unknown, so files without a known commit may be theirs. Set DREDGE_KV_URL to"
            " read all commits."
        )
    if history.at_work:
        yield f"* Running: {', '.join(history.at_work)}. Commits may soon use their files."
    if report.missing:
        yield f"* {len(report.missing):,} metaranges of commits are missing, such as {report.missing[0]}."
    if any(amounts[kind].objects for kind in (GARBAGE_RANGES, GARBAGE_METARANGES)):
        yield (
            "* This report deletes no file: a commit may write and use such a file again at any time. Give --note, and"
            " --apply a day later, to delete them safely: in a bucket with versions."
        )
