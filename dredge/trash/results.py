"""What a scan or a clean gives back, and stores as its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dredge.trash.apply import Outcome
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.finding import TrashFinding
from dredge.trash.plan import TrashPlan, by_kind
from dredge.trash.report import add_up, deleted_row, finding_row, outcome_row


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a look found.

    Args:
        plan: the trash of the asked kinds.
        findings: everything that is not plainly live.
        repositories: how many repository records there are.
        notes: what else a person should know of the look.
    """

    plan: TrashPlan
    findings: tuple[TrashFinding, ...]
    repositories: int
    notes: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """The report without the single findings."""
        return {
            "run_id": self.plan.run_id,
            "location": self.plan.location,
            "looked": self.plan.made.isoformat(),
            "partitions": self.plan.partitions,
            "repositories": self.repositories,
            "trash_rows": self.plan.rows,
            "trash_bytes": self.plan.size_bytes,
            "digest": self.plan.digest,
            "kinds": by_kind(self.findings),
            "pending": self.pending(),
            "notes": [*self.notes],
        }

    def pending(self) -> dict[str, Any]:
        """What waits: `found_now` (how many since this look), `waiting` (`count`, `rows`, `size_bytes`),
        `first_deletion` and `last_deletion` (from when the first and the last may be removed, ISO 8601; None where
        nothing waits)."""
        waiting = [finding for finding in self.findings if finding.waits_until is not None]
        until = [finding.waits_until.isoformat() for finding in waiting if finding.waits_until]
        began = [f.first_seen for f in self.findings if f.first_seen is not None]
        return {
            "found_now": sum(at >= self.plan.made for at in began),
            "waiting": {
                "count": len(waiting),
                "rows": sum(finding.rows for finding in waiting),
                "size_bytes": sum(finding.size_bytes for finding in waiting),
            },
            "first_deletion": min(until, default=None),
            "last_deletion": max(until, default=None),
        }

    def to_report(self) -> dict[str, Any]:
        """As a JSON object with every finding, each with its age."""
        now = self.plan.made
        findings = [finding_row(finding, now) for finding in self.findings]
        return self.figures() | {"summary": add_up(self.findings, now), "findings": findings}


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What a run removed.

    Args:
        scan: its first look.
        status: `dry_run`: nothing was to be removed; `done`; `partial`: some of the plan stayed, the
            outcomes say why; `stopped`: something removed was named again and put back; `failed`: the
            store went away.
        outcomes: one a finding of the plan that was still trash at the second look.
        deleted: one a repository that was handed over to the cleaner.
        message: of the error that ended the run.
    """

    scan: ScanReport
    status: Literal["dry_run", "done", "partial", "stopped", "failed"]
    outcomes: tuple[Outcome, ...] = ()
    deleted: tuple[DeletedOutcome, ...] = ()
    message: str = ""
    rows_removed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        rows = sum(outcome.rows for outcome in self.outcomes) + sum(
            done.rows_removed for done in self.deleted
        )
        object.__setattr__(self, "rows_removed", rows)

    def to_report(self) -> dict[str, Any]:
        """As a JSON object with every finding of the first look."""
        return self.scan.to_report() | {
            "status": self.status,
            "message": self.message,
            "rows_removed": self.rows_removed,
            "outcomes": [outcome_row(outcome, self.scan.plan.made) for outcome in self.outcomes],
            "deleted_repositories": [deleted_row(outcome) for outcome in self.deleted],
        }
