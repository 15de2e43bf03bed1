"""Reports of a scan and a clean: JSON with every finding, and one page of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from dredge.kv.rows import show
from dredge.runs import report as reports
from dredge.runs.payload import Json, to_json
from dredge.runs.report import duration_text
from dredge.trash.apply import Outcome
from dredge.trash.findings import TrashFinding, TrashPlan, by_kind

LINES_MAX = 2000  # of one table of the page; report.json has all
_VERDICTS = ("trash", "wait", "report")
_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"


class ScanReport(Struct, frozen=True):
    """The result of a look."""

    plan: TrashPlan
    findings: tuple[TrashFinding, ...]  # all rows that are not plainly live
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


class CleanReport(Struct, frozen=True):
    """The result of a clean."""

    scan: ScanReport
    # `dry_run`; `done`; `partial`: a part of the plan stayed, the outcomes have the reasons; `stopped`: a
    # record references a removal, which was restored; `failed`: the store did not answer
    status: Literal["dry_run", "done", "partial", "stopped", "failed"]
    # one for each finding of the plan that was trash in the second look too
    outcomes: tuple[Outcome, ...] = ()
    message: str = ""

    @property
    def rows_removed(self) -> int:
        """Number of deleted rows."""
        return sum(item.rows for item in self.outcomes)

    def to_report(self) -> dict[str, Any]:
        """The report as a JSON object, with every finding of the first look."""
        return self.scan.to_report() | {
            "status": self.status,
            "message": self.message,
            "rows_removed": self.rows_removed,
            "outcomes": [outcome_row(outcome, self.scan.plan.made) for outcome in self.outcomes],
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


def age_seconds(finding: TrashFinding, now: datetime) -> float | None:
    """Age of a finding; None if it is unknown."""
    age = finding.age(now)
    return None if age is None else age.total_seconds()


OUTCOMES = {
    "scan": ("dry_run", "scan: nothing was removed"),
    "dry_run": ("dry_run", "dry run: nothing was removed"),
    "done": ("success", "done"),
    "partial": ("partial", "not everything was removed"),
    "stopped": ("failed", "stopped: rows referenced again were restored"),
    "failed": ("failed", "the store became unavailable"),
}
"""Outcome of a run by the status of its report, and in words."""
_NO_REPORT = ("dry_run", "of another version")


def page_values(report: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a page about a report of `ScanReport.to_report` (with `status`) or `CleanReport.to_report`."""
    fates = {(item["partition"], item["key"]): item["fate"] for item in report.get("outcomes", ())}
    return {
        "report": report,
        "headline": headline(report),
        "outcome": outcome_of(report),
        "summary": [{**item, "age": _age(item["age_seconds"])} for item in report["summary"]],
        "findings": [
            {
                **item,
                "fate": fates.get((item["partition"], item["key"]), ""),
                "age": _age(item["age_seconds"]),
            }
            for item in report["findings"]
        ],
    }


def outcome_of(report: Mapping[str, Any]) -> tuple[str, str]:
    """The outcome of a run, also in words."""
    return OUTCOMES.get(report["status"], _NO_REPORT)


def headline(report: Mapping[str, Any]) -> str:
    """The findings and removals of a run, in a sentence."""
    found = (
        f"{report['trash_rows']:,} rows ({report['trash_bytes']:,} bytes) of {report['location']} are trash."
    )
    pending = pending_of(report)
    if pending["first_deletion"]:
        found += (
            f" {pending['waiting']['rows']:,} rows wait ({pending['found_now']:,} new partitions and keys);"
            f" the first may be removed from {pending['first_deletion']:.16} UTC on."
        )
    removed = report.get("rows_removed")
    return f"{removed:,} rows were removed; {found}" if removed else f"{found} Nothing was removed."


def pending_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The pending rows after a run, in the form of `ScanReport.pending`."""
    nothing = {"found_now": 0, "waiting": {"rows": 0, "size_bytes": 0}, "first_deletion": None}
    found: dict[str, Any] = report.get("pending", nothing)
    return found


def render(report: Mapping[str, Any]) -> str:
    """The HTML page of a report."""
    return reports.render(_TEMPLATE, lines_max=LINES_MAX, **page_values(report))


def _age(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(timedelta(seconds=seconds))
