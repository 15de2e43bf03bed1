"""The report on metadata: what range and metarange files cost, and who needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.files import (
    DAMAGED,
    GARBAGE_METARANGES,
    GARBAGE_RANGES,
    KINDS,
    Sorted,
    find_named,
    sort_files,
)
from dredge.gc.metadata.history import History, read_history
from dredge.gc.namespaces import METADATA, check_namespaces
from dredge.lakefs import LakeFS
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.storage import StorageOptions, open_reader


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
