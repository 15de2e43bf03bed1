"""Files of garbage collection in a storage namespace: the rules, and the lists that a server prepares.

    _lakefs/retention/gc/rules/config.json                         days that commits stay active, a protobuf message
    _lakefs/retention/gc/commits/run_id=<run>/commits.csv          active commits
    _lakefs/retention/gc/addresses/                                named in responses, never written
    _lakefs/retention/gc/uncommitted/<run>/uncommitted/<xid>       parquet, one file per page with rows

An empty rules file means "no rules", and so do rules that serialise to nothing: default 0 and no branches (L29).

Source: lakeFS pkg/graveler/retention/garbage_collection_manager.go
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dredge.errors import NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Commit
from dredge.storage import ObjectReader, ObjectWriter

RULES_KEY = "_lakefs/retention/gc/rules/config.json"


@dataclass(frozen=True, slots=True)
class Rules:
    """How many days commits stay active.

    Args:
        default_days: for branches without a rule and for commits that no branch leads to; may be 0 or
            negative.
        branch_days: days by exact branch name; patterns are not supported.
    """

    default_days: int
    branch_days: Mapping[str, int] = field(default_factory=dict)

    def threshold(self, now: datetime, branch: str | None) -> datetime:
        """The time that the commits of a line are compared with; strictly younger ones keep their parent active.

        Args:
            now: aware UTC.
            branch: the branch whose head the line starts at; None when it starts at no head.
        """
        days = self.default_days if branch is None else self.branch_days.get(branch, self.default_days)
        try:
            return now - timedelta(days=days)
        except OverflowError:  # more days than a calendar holds
            return (datetime.min if days > 0 else datetime.max).replace(tzinfo=UTC)

    def encode(self) -> bytes:
        """Write the file's content."""
        return messages.encode(
            messages.GarbageCollectionRules(
                default_retention_days=self.default_days, branch_retention_days=dict(self.branch_days)
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Rules | None:
        """Read the file's content; None where it is empty.

        Raises:
            FormatError: not a GarbageCollectionRules message.
        """
        if not data:
            return None
        record = messages.decode(messages.GarbageCollectionRules, data, RULES_KEY)
        return cls(record.default_retention_days, dict(record.branch_retention_days))


def read_rules(reader: ObjectReader) -> Rules | None:
    """Read a repository's rules; None where there is no file, or an empty one.

    Args:
        reader: of the storage namespace.
    """
    try:
        return Rules.decode(reader.get(RULES_KEY))
    except NotFoundError:
        return None


def write_rules(writer: ObjectWriter, rules: Rules) -> None:
    """Replace a repository's rules."""
    writer.put(RULES_KEY, rules.encode())


def delete_rules(writer: ObjectWriter) -> None:
    """Remove the rules as a server does: by writing an empty file."""
    writer.put(RULES_KEY, b"")


UNCOMMITTED = "_lakefs/retention/gc/uncommitted"
COMMITS = "_lakefs/retention/gc/commits"
ADDRESSES_KEY = "_lakefs/retention/gc/addresses/"
COLUMNS = ("commit_id", "expired", "metarange_id")


def commits_key(run_id: str) -> str:
    """Key of a run's CSV."""
    return f"{COMMITS}/run_id={run_id}/commits.csv"


def uncommitted_key(run_id: str) -> str:
    """Key of the folder of a run's parquet files."""
    return f"{UNCOMMITTED}/{run_id}/uncommitted/"


def commits_csv(active: Iterable[Commit]) -> bytes:
    """Write active commits. The metarange of a repository's first commit is empty (L8)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((commit.id, "false", commit.metarange_id) for commit in active)
    return text.getvalue().encode()
