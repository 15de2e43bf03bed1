"""The files in `_lakefs/` by kind, and their report. Only reads.

ranges and metaranges of commits → kept or unreachable
other files older than the minimum age are read, as only the content shows the kind:
    a table of a refs dump → kept · any other table → garbage · no table → other
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dredge.gc.insight.base_run import Amount
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.named import History, close, read_history
from dredge.gc.namespaces import METADATA, check_namespaces
from dredge.gc.witness.unnamed import DAMAGED as UNREADABLE
from dredge.gc.witness.unnamed import DUMP, read_kinds
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files.ranges import is_table_id
from dredge.lakefs.files.sstable import METARANGES, RANGES
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.storage import ObjectInfo, ObjectReader, StorageOptions, open_reader

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


@dataclass(slots=True)
class Named:
    """Files in use by commits, by name."""

    kept: set[str]  # by reachable or active commits
    unreachable: set[str]  # only by others
    missing: list[str]  # missing metaranges


@dataclass(slots=True)
class Sorted:
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


def find_named(reader: ObjectReader, kept: Collection[str], unreachable: Collection[str]) -> Named:
    """Read the metaranges of reachable or active commits, and of the other ones; "" is empty content."""
    of_kept, missing = close(reader, kept, {})
    others, more = close(reader, {*unreachable} - of_kept, {})
    return Named(of_kept, others - of_kept, sorted([*missing, *more]))


def sort_files(reader: ObjectReader, files: Sequence[ObjectInfo], named: Named, cutoff: datetime) -> Sorted:
    """Sort the files directly in `_lakefs/`, listed before the commits were read, by kind; files written at the
    cutoff or later are young."""
    found = Sorted()
    unnamed: dict[str, ObjectInfo] = {}
    for info in files:
        name = info.key.removeprefix(METADATA)
        if name in named.kept:
            found.add(KEPT, info)
        elif name in named.unreachable:
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


@dataclass(frozen=True, slots=True)
class MetadataReport:
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
    options: StorageOptions | None = None,
) -> MetadataReport:
    """Find range and metarange files without a commit. Changes no data.

    Args:
        now: the time, within minutes of the store's.
        min_age: younger files are skipped.
        access: lakeFS's key-value store; None reads only commits reachable from refs.

    Raises:
        RefusedError: the history is not readable to its root, the key-value store is another installation's, or the
            namespace overlaps with another repository's, whose commits may use the files.
    """
    namespace = client.repository(repository).namespace
    check_namespaces(repository, {found.name: found.namespace for found in client.repositories()})
    reader = open_reader(namespace, options)
    # Files before commits: files of new commits are then in use by a read commit.
    files = reader.list_level(METADATA).objects
    history = read_history(client, repository, namespace, now, access)
    kept = {commit.metarange_id for commit in history.kept.values()} | history.named
    unreachable = {commit.metarange_id for commit in history.unreachable.values()}
    named = find_named(reader, kept, unreachable)
    return MetadataReport(repository, history, sort_files(reader, files, named, now - min_age), named.missing)


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
