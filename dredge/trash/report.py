"""Reports of a scan and a clean: JSON with every finding, and one page of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from dredge.kv.rows import show
from dredge.runs import rendering
from dredge.runs.payload import Json, to_json
from dredge.runs.rendering import duration_text
from dredge.trash.apply import Outcome
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.findings import TrashFinding, TrashPlan, by_kind

LINES_MAX = 2000  # of one table of the page; report.json has all
_VERDICTS = ("trash", "wait", "report")
_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"


@dataclass(frozen=True, slots=True)
class ScanReport:
    """The result of a look.

    Args:
        findings: all rows that are not plainly live.
    """

    plan: TrashPlan
    findings: tuple[TrashFinding, ...]
    repositories: int
    notes: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """The report without single findings."""
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
        """Figures of the pending list: `found_now` (added by this look), `waiting` (`count`, `rows`, `size_bytes`),
        `first_deletion` and `last_deletion` (ends of the first and last wait, ISO 8601, or None)."""
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
        """The report as a JSON object, with every finding and its age."""
        now = self.plan.made
        findings = [finding_row(finding, now) for finding in self.findings]
        return self.figures() | {"summary": add_up(self.findings, now), "findings": findings}


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of a clean.

    Args:
        status: `dry_run`; `done`; `partial`: a part of the plan stayed, the outcomes have the reasons; `stopped`: a
            record references a removal, which was restored; `failed`: the store did not answer.
        outcomes: one for each finding of the plan that was trash in the second look too.
    """

    scan: ScanReport
    status: Literal["dry_run", "done", "partial", "stopped", "failed"]
    outcomes: tuple[Outcome, ...] = ()
    deleted: tuple[DeletedOutcome, ...] = ()
    message: str = ""

    @property
    def rows_removed(self) -> int:
        """Number of deleted rows."""
        return sum(item.rows for item in self.outcomes) + sum(item.rows_removed for item in self.deleted)

    def to_report(self) -> dict[str, Any]:
        """The report as a JSON object, with every finding of the first look."""
        return self.scan.to_report() | {
            "status": self.status,
            "message": self.message,
            "rows_removed": self.rows_removed,
            "outcomes": [outcome_row(outcome, self.scan.plan.made) for outcome in self.outcomes],
            "deleted_repositories": [deleted_row(outcome) for outcome in self.deleted],
        }


def add_up(findings: Iterable[TrashFinding], now: datetime) -> list[dict[str, Any]]:
    """Sums of findings by verdict, kind and reason, trash first; with the age of the oldest in seconds, or None."""
    groups: dict[tuple[int, str, str], list[TrashFinding]] = {}
    for finding in findings:
        place = (_VERDICTS.index(finding.verdict), finding.kind, finding.why)
        groups.setdefault(place, []).append(finding)
    return [
        {
            "verdict": _VERDICTS[verdict],
            "kind": kind,
            "why": why,
            "partitions": sum(finding.key is None for finding in found),
            "keys": sum(finding.key is not None for finding in found),
            "rows": sum(finding.rows for finding in found),
            "size_bytes": sum(finding.size_bytes for finding in found),
            "age_seconds": max(
                (age for f in found if (age := age_seconds(f, now)) is not None), default=None
            ),
        }
        for (verdict, kind, why), found in sorted(groups.items())
    ]


def finding_row(finding: TrashFinding, now: datetime) -> Json:
    """A finding in a report: names as text, with its age."""
    key = None if finding.key is None else show(finding.key)
    named = {"partition": show(finding.partition), "key": key}
    return to_json(finding) | named | {"age_seconds": age_seconds(finding, now)}


def outcome_row(outcome: Outcome, now: datetime) -> Json:
    """The outcome of a finding in a report."""
    return finding_row(outcome.finding, now) | {"fate": outcome.fate, "rows_deleted": outcome.rows}


def deleted_row(outcome: DeletedOutcome) -> Json:
    """The outcome of a repository handed over, in a report."""
    return {
        "entry": outcome.entry,
        "fate": outcome.fate,
        "rows_deleted": outcome.rows_removed,
        "message": outcome.message,
    }


def age_seconds(finding: TrashFinding, now: datetime) -> float | None:
    """Age of a finding; None if it is unknown."""
    age = finding.age(now)
    return None if age is None else age.total_seconds()


def render(report: Mapping[str, Any]) -> str:
    """The HTML page of a report of `ScanReport.to_report` (with `status`) or `CleanReport.to_report`."""
    sentences = [
        f"Run {report['run_id']} of {report['looked']} UTC: {report['status']}.",
        f"{report['partitions']:,} partitions, {report['repositories']:,} repositories.",
        f"Trash: {report['trash_rows']:,} rows, {report['trash_bytes']:,} bytes.",
    ]
    pending = report.get("pending") or {}
    if pending.get("first_deletion"):
        waiting = pending["waiting"]
        sentences.append(
            f"Waiting: {waiting['rows']:,} rows, {waiting['size_bytes']:,} bytes; found now: {pending['found_now']:,}."
            f" The first wait ends at {pending['first_deletion']}, the last at {pending['last_deletion']}."
        )
    if "rows_removed" in report:
        sentences.append(f"Removed: {report['rows_removed']:,} rows.")
    sentences.extend(report.get("notes", ()))
    if report.get("message"):
        sentences.append(str(report["message"]))
    sums = [
        (
            *(each[name] for name in ("kind", "verdict", "why", "partitions", "keys", "rows", "size_bytes")),
            _age(each["age_seconds"]),
        )
        for each in report["summary"]
    ]
    fates = {(each["partition"], each["key"]): each["fate"] for each in report.get("outcomes", [])}
    single = [
        (
            *(each["partition"], each["key"] or "", each["kind"], each["verdict"]),
            fates.get((each["partition"], each["key"]), ""),
            *(each["why"], each["rows"], each["size_bytes"], _age(each["age_seconds"])),
        )
        for each in report["findings"]
    ]
    handed_over = [
        (each["entry"], each["fate"], each["rows_deleted"], each["message"])
        for each in report.get("deleted_repositories", [])
    ]
    return rendering.render(
        _TEMPLATE,
        title=f"Trash of {report['location']}",
        sentences=sentences,
        tables=[
            ("By kind", ("kind", "verdict", "why", "partitions", "keys", "rows", "bytes", "oldest"), sums),
            ("Deleted repositories", ("entry", "outcome", "rows", "why"), handed_over),
            (
                "Findings",
                ("partition", "key", "kind", "verdict", "outcome", "why", "rows", "bytes", "age"),
                single,
            ),
        ],
        lines_max=LINES_MAX,
    )


def _age(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(timedelta(seconds=seconds))
