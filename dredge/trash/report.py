"""What a run found and did, for people: sums by kind, and one page of HTML that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dredge.runs.report import duration_text
from dredge.trash.finding import Finding

LINES_MAX = 2000  # of one table of the page; report.json has all
_VERDICTS = ("trash", "wait", "report")
_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2rem;color:#222}table{border-collapse:collapse;margin:1rem 0}"
    "th,td{text-align:left;padding:.25rem .8rem;border-bottom:1px solid #ddd;vertical-align:top}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}td.name{word-break:break-all}"
)


def add_up(findings: Iterable[Finding], now: datetime) -> list[dict[str, Any]]:
    """Add findings up by verdict, kind and reason.

    Args:
        findings: of one look.
        now: when that was.

    Returns:
        Objects with verdict, kind, why, partitions, keys, rows, size_bytes and the age of the oldest in
        seconds (None where nothing tells it); trash first.
    """
    groups: dict[tuple[int, str, str], list[Finding]] = {}
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


def age_seconds(finding: Finding, now: datetime) -> float | None:
    """How old a finding is; None where nothing tells."""
    age = finding.age(now)
    return None if age is None else age.total_seconds()


def render(report: Mapping[str, Any]) -> str:
    """Draw a report as a page.

    Args:
        report: as it is stored: what `ScanReport.to_json` or `CleanReport.to_json` gives, with `status`.
    """
    location = str(report["location"])
    words = [
        f"Run {report['run_id']} of {report['looked']} UTC: {report['status']}.",
        f"{report['partitions']:,} partitions, {report['repositories']:,} repositories.",
        f"Trash: {report['trash_rows']:,} rows, {report['trash_bytes']:,} bytes.",
    ]
    if "rows_removed" in report:
        words.append(f"Removed: {report['rows_removed']:,} rows.")
    if report.get("message"):
        words.append(str(report["message"]))
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
    body = "".join(_table(title, head, lines) for title, head, lines in tables if lines)
    title = html.escape(f"Trash of {location}")
    told = "<br>".join(html.escape(word) for word in words)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>{told}</p>{body}</html>\n"
    )


def _table(title: str, head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    rows = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines[:LINES_MAX])
    more = len(lines) - LINES_MAX
    note = f"<p>{more:,} more in report.json</p>" if more > 0 else ""
    heads = "".join(f"<th>{html.escape(word)}</th>" for word in head)
    return f"<h2>{html.escape(title)}</h2><table><tr>{heads}</tr>{rows}</table>{note}"


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"<td class=n>{value:,}</td>"
    return f"<td class=name>{html.escape(str(value))}</td>"


def _age(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(timedelta(seconds=seconds))
