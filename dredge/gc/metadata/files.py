"""What lies in `_lakefs/`: range and metarange files, and which commits name them.

metaranges of commits → the ranges they name
    every other file that is old enough: read, for only its content says what it is
        a table of a refs dump → kept · any other table → garbage · no table → none of ours
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.gc.insight.addresses import Amount
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.named import History, read_history
from dredge.gc.namespaces import METADATA, check_namespaces
from dredge.lakefs import LakeFS
from dredge.lakefs.files.metaranges import read_metarange
from dredge.lakefs.files.ranges import is_table_id
from dredge.lakefs.files.sstable import METARANGES
from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.runs.payload import to_json
from dredge.runs.words import size_text
from dredge.storage import ObjectInfo, ObjectReader, StorageOptions, open_reader

KEPT, UNREACHABLE, YOUNG, DUMPS = "kept", "unreachable", "young", "dumps"
GARBAGE_RANGES, GARBAGE_METARANGES, DAMAGED, OTHER = (
    "garbage_ranges",
    "garbage_metaranges",
    "damaged",
    "other",
)
KINDS = {
    KEPT: "named by commits that branches or tags lead to, or that rules keep",
    UNREACHABLE: "named only by commits that no branch and no tag leads to and no rule keeps",
    YOUNG: "younger than the minimum age: a commit may be about to name them",
    GARBAGE_RANGES: "ranges that no commit names",
    GARBAGE_METARANGES: "metaranges that no commit names",
    DUMPS: "files of refs dumps",
    DAMAGED: "named like a table, and not readable as one",
    OTHER: "other files",
}
"""What files are, in the order in which people read it."""
_EXAMPLES_MAX = 10
_AT_ONCE = 4
"""Range files may be long, and are read whole."""


@dataclass(slots=True)
class Named:
    """Files that commits name, by name.

    Attributes:
        kept: by those that matter.
        unreachable: by others only.
        missing: metaranges that are named and not there.
    """

    kept: set[str]
    unreachable: set[str]
    missing: list[str]


@dataclass(slots=True)
class Sorted:
    """The files of `_lakefs/`, by what they are.

    Attributes:
        amounts: number and bytes, by kind.
        examples: names of a few, by kind.
        garbage: names of all files of the two kinds of garbage.
    """

    amounts: dict[str, Amount] = field(default_factory=lambda: {kind: Amount() for kind in KINDS})
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
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
    """Read the metaranges of commits.

    Args:
        reader: on the storage namespace.
        kept: ids of the metaranges of commits that matter; the empty one is the content without entries.
        unreachable: ids of those of others.

    Raises:
        FormatError: one is damaged.
    """
    missing: list[str] = []
    of_kept = _closure(reader, kept, missing)
    return Named(of_kept, _closure(reader, set(unreachable) - of_kept, missing) - of_kept, sorted(missing))


def _closure(reader: ObjectReader, metaranges: Iterable[str], missing: list[str]) -> set[str]:
    """Metaranges, and the ranges that they name."""
    found: set[str] = set()
    for metarange_id in sorted(filter(None, metaranges)):
        found.add(metarange_id)
        key = METADATA + metarange_id
        try:
            metarange = read_metarange(reader.get(key), key, expected_id=metarange_id)
        except NotFoundError:
            missing.append(metarange_id)
            continue
        found.update(info.id for info in metarange.ranges)
    return found


def sort_files(reader: ObjectReader, files: Sequence[ObjectInfo], named: Named, cutoff: datetime) -> Sorted:
    """Say of each file directly in `_lakefs/` what it is.

    Args:
        reader: on the storage namespace.
        files: listed before the commits were read, so that what is committed meanwhile is named.
        named: by the commits.
        cutoff: files that were written then or later are young, whatever they are.
    """
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
            unnamed[info.key] = info
    for key, data in reader.get_many(list(unnamed), _AT_ONCE):
        found.add(_kind(data, key), unnamed[key])
    return found


def _kind(data: bytes, name: str) -> str:
    try:
        envelope = read_envelope(data, name, None, None)
    except FormatError:
        return DAMAGED
    if envelope.entity is not None:
        return DUMPS
    return GARBAGE_METARANGES if envelope.kind == METARANGES else GARBAGE_RANGES


@dataclass(frozen=True, slots=True)
class MetadataReport:
    """What lies in `_lakefs/`.

    Attributes:
        repository: name.
        history: the commits.
        files: by what they are.
        missing: metaranges of commits that are not there.
    """

    repository: str
    history: History
    files: Sorted
    missing: list[str]

    def figures(self) -> dict[str, Any]:
        """Figures and examples as a JSON object."""
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


_SHOWN = (GARBAGE_RANGES, GARBAGE_METARANGES, DAMAGED)


def look_at_metadata(
    client: LakeFS,
    repository: str,
    now: datetime,
    min_age: timedelta,
    access: KVAccess | None = None,
    options: StorageOptions | None = None,
) -> MetadataReport:
    """Find out which range and metarange files no commit names. Changes nothing.

    Args:
        client: the lakeFS server.
        repository: name.
        now: the time, within minutes of the store's.
        min_age: younger files are not looked at.
        access: to lakeFS's key-value store; None knows only the commits that refs lead to.
        options: how the store is reached; None reads the environment.

    Raises:
        NotFoundError: there is no such repository.
        RefusedError: history cannot be read to its root, the key-value store is another installation's, or another
            repository overlaps with the namespace, so that its commits may name the files.
        FormatError: a metarange of a commit is damaged.
    """
    namespace = client.repository(repository).namespace
    check_namespaces(repository, {found.name: found.namespace for found in client.repositories()})
    reader = open_reader(namespace, options)
    # Files before commits: what is committed meanwhile is named when the commits are read.
    files = reader.list_level(METADATA).objects
    history = read_history(client, repository, namespace, now, access)
    kept = {commit.metarange_id for commit in history.kept.values()} | history.named
    unreachable = {commit.metarange_id for commit in history.unreachable.values()}
    named = find_named(reader, kept, unreachable)
    return MetadataReport(repository, history, sort_files(reader, files, named, now - min_age), named.missing)


def report_lines(report: MetadataReport) -> Iterator[str]:
    """Word a report for the terminal."""
    history, amounts = report.history, report.files.amounts
    known = "all of its" if history.complete else "those of its commits that branches and tags lead to:"
    yield f"{report.repository}: {known} {len(history.kept) + len(history.unreachable):,} commits were read"
    yield f"{'FILES':>12}{'SIZE':>12}  WHAT"
    for kind, words in KINDS.items():
        if amounts[kind].objects:
            yield f"{amounts[kind].objects:>12,}{size_text(amounts[kind].size_bytes):>12}  {words}"
    if history.unreachable:
        yield f"{len(history.unreachable):,} commits: no branch and no tag leads to them, and no rule keeps them"
    yield from _warnings(report)


def _warnings(report: MetadataReport) -> Iterator[str]:
    history = report.history
    if not history.complete:
        yield (
            "* Commits that no branch and no tag leads to are not known, so some of what counts as named by no commit"
            " may be theirs. DREDGE_KV_URL tells of them all."
        )
    if history.at_work:
        yield f"* At work: {', '.join(history.at_work)}. What they have written may be about to be named."
    if report.missing:
        yield f"* {len(report.missing):,} metaranges of commits are not there, such as {report.missing[0]}."
    if any(report.files.amounts[kind].objects for kind in (GARBAGE_RANGES, GARBAGE_METARANGES)):
        yield (
            "* Nothing of this is deleted by looking: a file that nothing names today may be written and named again at"
            " any moment. --note, then --apply a day later, let it go where that is safe: in a bucket with versions."
        )
