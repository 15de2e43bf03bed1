"""Files of garbage collection in a storage namespace: the rules, and lists prepared by a server.

    _lakefs/retention/gc/rules/config.json                         days of active commits, a protobuf message
    _lakefs/retention/gc/commits/run_id=<run>/commits.csv          active commits
    _lakefs/retention/gc/addresses/                                named in responses, never written
    _lakefs/retention/gc/uncommitted/<run>/uncommitted/<xid>       parquet, a file per page with rows

An empty rules file means "no rules", and so do rules with an empty message: default 0 and no branches (L29).

Source: lakeFS pkg/graveler/retention/garbage_collection_manager.go
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dredge.lakefs.files import messages

RULES_KEY = "_lakefs/retention/gc/rules/config.json"


@dataclass(frozen=True, slots=True)
class Rules:
    """How many days commits stay active.

    Args:
        default_days: for branches without a rule and for commits without a branch; may be 0 or
            negative.
        branch_days: days by exact branch name; patterns are not supported.
    """

    default_days: int
    branch_days: Mapping[str, int] = field(default_factory=dict)

    def threshold(self, now: datetime, branch: str | None) -> datetime:
        """The cutoff for the commits of a line; strictly younger ones keep their parent active. `branch`: branch of the
        line's first commit, if it is a head; else None."""
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
        """Read the file; None if it is empty. Raises FormatError if not a GarbageCollectionRules message."""
        if not data:
            return None
        record = messages.decode(messages.GarbageCollectionRules, data, RULES_KEY)
        return cls(record.default_retention_days, dict(record.branch_retention_days))


UNCOMMITTED = "_lakefs/retention/gc/uncommitted"
COMMITS = "_lakefs/retention/gc/commits"
ADDRESSES_KEY = "_lakefs/retention/gc/addresses/"


def uncommitted_key(run_id: str) -> str:
    """Key of the folder of a run's parquet files."""
    return f"{UNCOMMITTED}/{run_id}/uncommitted/"
