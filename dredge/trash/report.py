"""What a run found and did, for people: sums by kind, and one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dredge.kv.rows import show
from dredge.runs import rendering
from dredge.runs.payload import Json, to_json
from dredge.runs.rendering import duration_text
from dredge.trash.apply import Outcome
from dredge.trash.deleted import DeletedOutcome
from dredge.trash.finding import TrashFinding

LINES_MAX = 2000  # of one table of the page; report.json has all
_VERDICTS = ("trash", "wait", "report")
_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"


def add_up(findings: Iterable[TrashFinding], now: datetime) -> list[dict[str, Any]]:
    """Add findings up by verdict, kind and reason.

    Args:
        findings: of one look.
        now: when that was.

    Returns:
        Objects with verdict, kind, why, partitions, keys, rows, size_bytes and the age of the oldest in
        seconds (None where nothing tells it); trash first.
    """
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
    """A finding as reports have it: its names as text, and its age.

    Args:
        finding: of a look.
        now: when that was.
    """
    key = None if finding.key is None else show(finding.key)
    named = {"partition": show(finding.partition), "key": key}
    return to_json(finding) | named | {"age_seconds": age_seconds(finding, now)}


def outcome_row(outcome: Outcome, now: datetime) -> Json:
    """What became of a finding, as reports have it; see `finding_row`."""
    return finding_row(outcome.finding, now) | {"fate": outcome.fate, "rows_deleted": outcome.rows}


def deleted_row(outcome: DeletedOutcome) -> Json:
    """What became of a repository that was handed over, as reports have it."""
    return {
        "entry": outcome.entry,
        "fate": outcome.fate,
        "rows_deleted": outcome.rows_removed,
        "message": outcome.message,
    }


def age_seconds(finding: TrashFinding, now: datetime) -> float | None:
    """How old a finding is; None where nothing tells."""
    age = finding.age(now)
    return None if age is None else age.total_seconds()


def render(report: Mapping[str, Any]) -> str:
    """Draw a report as a page.

    Args:
        report: as it is stored: what `ScanReport.to_report` or `CleanReport.to_report` gives, with `status`.
    """
    sentences = [
        f"Run {report['run_id']} of {report['looked']} UTC: {report['status']}.",
        f"{report['partitions']:,} partitions, {report['repositories']:,} repositories.",
        f"Trash: {report['trash_rows']:,} rows, {report['trash_bytes']:,} bytes.",
    ]
    pending = report.get("pending") or {}
    if pending.get("first_deletion"):
        waiting = pending["waiting"]
        sentences.append(
            f"Waits: {waiting['rows']:,} rows, {waiting['size_bytes']:,} bytes; found now: {pending['found_now']:,}."
            f" The first may be removed from {pending['first_deletion']} on, the last from {pending['last_deletion']}."
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
    tables = [
        ("By kind", ("kind", "verdict", "why", "partitions", "keys", "rows", "bytes", "oldest"), sums),
        ("Repositories that were handed over", ("entry", "outcome", "rows", "why"), handed_over),
        (
            "One by one",
            ("partition", "key", "kind", "verdict", "outcome", "why", "rows", "bytes", "age"),
            single,
        ),
    ]
    return rendering.render(
        _TEMPLATE,
        title=f"Trash of {report['location']}",
        sentences=sentences,
        tables=tables,
        lines_max=LINES_MAX,
    )


def _age(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(timedelta(seconds=seconds))
