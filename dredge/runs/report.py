"""Reports of runs as HTML pages and as text: for a run, and for the runs of many repositories."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dredge.errors import DredgeError
from dredge.runs.failures import foreseen
from dredge.runs.folder import read_json
from dredge.runs.payload import Json, to_json
from dredge.runs.rendering import number_of, render, size_text
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """Objects of a kind with the same outcome.

    Attributes:
        kind: such as "unreferenced".
        verdict: such as "deleted" or "kept".
        size_bytes: total size; None if unknown.
    """

    kind: str
    verdict: str
    why: str
    objects: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table. `text`: formats the value of a row in JSON."""

    title: str
    text: Callable[[Mapping[str, Any]], str]
    is_number: bool = False


# For page and terminal. A new column is a field of `ReportRow` and an entry here.
COLUMNS = (
    Column("Kind", lambda row: str(row["kind"])),
    Column("Verdict", lambda row: str(row["verdict"])),
    Column("Objects", lambda row: f"{row['objects']:,}", is_number=True),
    Column("Size", lambda row: size_text(row["size_bytes"]), is_number=True),
    Column("Why", lambda row: str(row["why"])),
)


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Format rows in JSON as a text table with headings."""
    table = [[column.title.upper() for column in COLUMNS]]
    table += [[column.text(row) for column in COLUMNS] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    for cells in table:
        aligned = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for column, text, width in zip(COLUMNS, cells, widths, strict=True)
        ]
        yield "  ".join(aligned).rstrip()


_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"


def render_html(report: Mapping[str, Any]) -> str:
    """Render a report as a self-contained HTML page. `report`: `title`, `outcome`, `outcome_text`, `headline`,
    `what_to_do`, `facts` (pairs), `rows` (of `ReportRow`), `problems`, `failures`, `warnings`, `findings`, `steps`;
    optional `held` and `over_limit` (why, objects, bytes, examples), and `sections` (`title`, `columns`, `rows` of
    texts; optional `about`, `notes`, and `curve` of `place_curve`)."""
    rows = [
        {"colour": _colour(row["verdict"]), "cells": [(column, column.text(row)) for column in COLUMNS]}
        for row in report["rows"]
    ]
    return render(
        _TEMPLATE,
        **{"held": [], "over_limit": [], "sections": [], **report, "columns": COLUMNS, "rows": rows},
    )


def _colour(verdict: str) -> str:
    if "deleted" in verdict:
        return "deleted" if verdict == "deleted" else "waiting"
    return "kept" if verdict == "kept" else "waiting"


LEFT_OUT, FAILED = "left_out", "failed"
DRY = "dry_run"
# Outcomes of complete runs.
ENDED = ("success", DRY)

_PAGE = "report.html"
_SUMMARY_TEMPLATE = Path(__file__).parent / "templates" / "summary.html.j2"
_SUMMARIES = "summaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a repository.

    Attributes:
        outcome: of its run's report; "left_out" without a run, "failed" if unknown.
        why: the error, or the reason to leave it out; "" if absent.
        run_uri: folder of the run; "" without a plan.
        report_uri: page of the report; "" if absent.
    """

    repository: str
    outcome: str
    text: str
    why: str = ""
    found_objects: int = 0
    found_bytes: int = 0
    deleted_objects: int = 0
    deleted_bytes: int = 0
    run_uri: str = ""
    report_uri: str = ""

    @property
    def is_good(self) -> bool:
        """Whether no person is needed."""
        return self.outcome in ENDED or self.outcome == LEFT_OUT


def left_out(repository: str, why: str) -> Outcome:
    """Return the outcome of a repository without a run."""
    return Outcome(repository=repository, outcome=LEFT_OUT, text="left out", why=why)


def lost(repository: str, why: str, run_uri: str = "") -> Outcome:
    """Return the outcome of a run without a report.

    Args:
        why: the known error; "" if unknown.
        run_uri: folder of the run; "" without a plan.
    """
    return Outcome(repository=repository, outcome=FAILED, text=FAILED, why=why or _UNTOLD, run_uri=run_uri)


_UNTOLD = "the run has no plan; see the log of its first failed task"


def reported(repository: str, run_uri: str, report: Mapping[str, Any]) -> Outcome:
    """Return the outcome in the report of a run."""
    outcome, counts = report["outcome"], report["counts"]
    problems = report["problems"] if outcome not in ENDED else []
    return Outcome(
        repository=repository,
        outcome=outcome,
        text=report["outcome_text"],
        why=problems[0] if problems else "",
        found_objects=counts.get("deletable_objects", 0),
        found_bytes=counts.get("deletable_bytes", 0),
        deleted_objects=counts.get("deleted_objects", 0),
        deleted_bytes=counts.get("deleted_bytes", 0),
        run_uri=run_uri,
        report_uri=f"{run_uri}/{_PAGE}",
    )


def outcome_of(
    repository: str, run_uri: str, why: str = "", options: StorageOptions | None = None
) -> Outcome:
    """The outcome of a repository's run, from its report, or else from the known error."""
    if not run_uri:
        return lost(repository, why)
    try:
        report = read_json(open_reader(run_uri, options), "report.json")
    except DredgeError as error:
        return lost(repository, why or str(error), run_uri)
    return reported(repository, run_uri, report)


def collect_each(
    repositories: Sequence[str],
    plan: Callable[[str], str],
    collect: Callable[[str], object],
    at_once: int = 1,
    options: StorageOptions | None = None,
) -> Iterator[Outcome]:
    """Collect repositories in this process, each with its own run, and yield the outcomes in order. A failed run stops
    no other run.

    Args:
        plan: plans the run of a repository, and returns the URI of its folder.
        collect: does a planned run, by the URI of its folder.
    """

    def collect_one(repository: str) -> Outcome:
        run_uri = why = ""
        try:
            with foreseen(f"the run of {repository}"):
                run_uri = plan(repository)
                collect(run_uri)
        except DredgeError as error:
            why = str(error)
            log.error("%s: %s", repository, why)
        return outcome_of(repository, run_uri, why, options)

    return ordered_map(collect_one, repositories, at_once)


def summarize(outcomes: Sequence[Outcome], now: datetime) -> Json:
    """Combine the outcomes of all repositories; returns JSON: `counts`, and `repositories`, problems first."""
    kinds = Counter(item.outcome for item in outcomes)
    ordered = sorted(outcomes, key=lambda item: (item.is_good, item.outcome == LEFT_OUT, item.repository))
    return {
        "format": 1,
        "written_at": now.isoformat(),
        "counts": {
            "repositories": len(outcomes),
            "collected_repositories": sum(kinds[name] for name in ENDED),
            "dry_repositories": kinds[DRY],
            "left_out_repositories": kinds[LEFT_OUT],
            "failed_repositories": sum(not item.is_good for item in outcomes),
            "found_objects": sum(item.found_objects for item in outcomes),
            "found_bytes": sum(item.found_bytes for item in outcomes),
            "deleted_objects": sum(item.deleted_objects for item in outcomes),
            "deleted_bytes": sum(item.deleted_bytes for item in outcomes),
        },
        "repositories": [{**to_json(item), "is_good": item.is_good} for item in ordered],
    }


def save_summary(
    summary: Mapping[str, Any], root: str, name: str, options: StorageOptions | None = None
) -> str:
    """Write a summary as JSON and as a page.

    Args:
        root: URI of the folder of summaries.
        name: of this summary; replaces a summary of the same name.

    Returns:
        URI of the page.
    """
    folder = f"{root}/{_SUMMARIES}"
    writer = open_writer(folder, options)
    writer.put(f"{name}.json", json.dumps(summary, indent=1).encode())
    writer.put(f"{name}.html", render_summary(summary).encode())
    return f"{folder}/{name}.html"


def render_summary(summary: Mapping[str, Any]) -> str:
    """Render a summary as a self-contained HTML page."""
    return render(_SUMMARY_TEMPLATE, **summary, headline=headline(summary), size_text=size_text)


def headline(summary: Mapping[str, Any]) -> str:
    """Summarize the outcomes in a sentence."""
    counts = summary["counts"]
    collected, failed = counts["collected_repositories"], counts["failed_repositories"]
    was = "were" if counts["repositories"] != 1 else "was"
    done = "checked in dry runs" if collected and counts.get("dry_repositories") == collected else "collected"
    return (
        f"{collected:,} of {number_of(counts['repositories'], 'repository', 'repositories')} {was} {done},"
        f" {counts['left_out_repositories']:,} left out, {failed:,} {'needs' if failed == 1 else 'need'} a person."
        f" {counts['deleted_objects']:,} objects ({size_text(counts['deleted_bytes'])}) were deleted,"
        f" of {counts['found_objects']:,} ({size_text(counts['found_bytes'])}) that could be."
    )


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Format a summary as text: a line for each repository, with its error below."""
    yield headline(summary)
    rows = summary["repositories"]
    width = max([10, *(len(row["repository"]) for row in rows)]) + 2
    yield f"{'REPOSITORY':<{width}}{'OUTCOME':<32}{'FOUND':>12}{'DELETED':>12}{'SIZE':>12}"
    for row in rows:
        yield (
            f"{row['repository']:<{width}}{row['text']:<32}{row['found_objects']:>12,}"
            f"{row['deleted_objects']:>12,}{size_text(row['deleted_bytes']):>12}"
        )
        if row["why"]:
            yield f"{'':<4}{row['why']}"
