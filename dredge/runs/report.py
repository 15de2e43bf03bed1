"""The reports as pages of HTML that need nothing else: of a run, and of the runs of many repositories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dredge.runs.payload import Json, to_json
from dredge.runs.rendering import number_of, render, size_text
from dredge.storage import StorageOptions, open_writer


@dataclass(frozen=True, slots=True)
class ReportRow:
    """Objects of one kind that met one fate.

    Attributes:
        kind: what the objects are, such as "unreferenced".
        verdict: what became of them, such as "deleted" or "kept".
        why: the reason, as half a sentence.
        objects: how many.
        size_bytes: their length together; None when nobody counted.
    """

    kind: str
    verdict: str
    why: str
    objects: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        title: its heading.
        text: words a row's value, from the row as `ReportRow.to_json` gave it.
        is_number: whether it is aligned to the right.
    """

    title: str
    text: Callable[[Mapping[str, Any]], str]
    is_number: bool = False


COLUMNS = (
    Column("Kind", lambda row: str(row["kind"])),
    Column("Verdict", lambda row: str(row["verdict"])),
    Column("Objects", lambda row: f"{row['objects']:,}", is_number=True),
    Column("Size", lambda row: size_text(row["size_bytes"]), is_number=True),
    Column("Why", lambda row: str(row["why"])),
)
"""From left to right. A new column is a field of `ReportRow` and an entry here."""


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw the table as text, a line for each row, below a line of headings.

    Args:
        rows: as `ReportRow.to_json` gave them.
    """
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
    """Render a report.

    Args:
        report: `title`, `outcome`, `outcome_text`, `headline`, `what_to_do`, `facts` (pairs), `rows` (as
            `ReportRow.to_json` gives them), `problems`, `failures`, `warnings`, `findings`, `steps`; if wanted
            `held` and `over_limit` (why, objects, bytes, examples), and `sections` (`title`, `columns`, `rows` of
            texts, and if wanted `about`, `notes`, and `curve`, as `place_curve` gives it).
    """
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
ENDED = ("success", DRY)
"""Outcomes of runs that came to their end."""

_PAGE = "report.html"
_SUMMARY_TEMPLATE = Path(__file__).parent / "templates" / "summary.html.j2"
_SUMMARIES = "summaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one repository.

    Attributes:
        repository: its name.
        outcome: of its run, as in its report; "left_out" when it had none, "failed" when nobody can tell.
        text: the outcome, in words.
        why: what went wrong, or why it was left out; "" when all is well.
        found_objects: what the run could delete.
        found_bytes: their length.
        deleted_objects: what it deleted.
        deleted_bytes: their length.
        run_uri: folder of its run; "" when it came to none.
        report_uri: page of its report; "" when there is none.
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
        """Whether nothing needs to be done about it."""
        return self.outcome in ENDED or self.outcome == LEFT_OUT


def left_out(repository: str, why: str) -> Outcome:
    """Tell of a repository that had no run.

    Args:
        repository: its name.
        why: the reason.
    """
    return Outcome(repository=repository, outcome=LEFT_OUT, text="left out", why=why)


def lost(repository: str, why: str, run_uri: str = "") -> Outcome:
    """Tell of a repository whose run has no report.

    Args:
        repository: its name.
        why: what is known to have gone wrong; "" for nothing.
        run_uri: folder of the run; "" when it came to no plan.
    """
    return Outcome(repository=repository, outcome=FAILED, text=FAILED, why=why or _UNTOLD, run_uri=run_uri)


_UNTOLD = "the run came to no plan; the log of its first red task says why"


def reported(
    repository: str, run_uri: str, report: Mapping[str, Any], found: tuple[int, int], deleted: tuple[int, int]
) -> Outcome:
    """Tell of a repository by the report of its run.

    Args:
        repository: its name.
        run_uri: folder of the run.
        report: with `outcome`, `outcome_text` and `problems`.
        found: objects that it could delete, and their length.
        deleted: objects that it deleted, and their length.
    """
    outcome = report["outcome"]
    problems = report["problems"] if outcome not in ENDED else []
    return Outcome(
        repository=repository,
        outcome=outcome,
        text=report["outcome_text"],
        why=problems[0] if problems else "",
        found_objects=found[0],
        found_bytes=found[1],
        deleted_objects=deleted[0],
        deleted_bytes=deleted[1],
        run_uri=run_uri,
        report_uri=f"{run_uri}/{_PAGE}",
    )


def summarize(outcomes: Sequence[Outcome], now: datetime) -> Json:
    """Put together what became of all repositories.

    Args:
        outcomes: of each.
        now: when this was written.

    Returns:
        A JSON object: `counts`, figures of all together, and `repositories`, those that need a look first.
    """
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
        summary: as `summarize` gave it.
        root: URI of the folder of summaries.
        name: of this one; one with the same name is replaced.
        options: how stores are reached; None reads the environment.

    Returns:
        URI of the page.
    """
    folder = f"{root}/{_SUMMARIES}"
    writer = open_writer(folder, options)
    writer.put(f"{name}.json", json.dumps(summary, indent=1).encode())
    writer.put(f"{name}.html", render_summary(summary).encode())
    return f"{folder}/{name}.html"


def render_summary(summary: Mapping[str, Any]) -> str:
    """Render a summary as a page of HTML that needs nothing else."""
    return render(_SUMMARY_TEMPLATE, **summary, headline=headline(summary), size_text=size_text)


def headline(summary: Mapping[str, Any]) -> str:
    """Say in a sentence what became of all repositories."""
    counts = summary["counts"]
    collected, failed = counts["collected_repositories"], counts["failed_repositories"]
    was = "were" if counts["repositories"] != 1 else "was"
    done = (
        "looked at in dry runs" if collected and counts.get("dry_repositories") == collected else "collected"
    )
    return (
        f"{collected:,} of {number_of(counts['repositories'], 'repository', 'repositories')} {was} {done},"
        f" {counts['left_out_repositories']:,} left out, {failed:,} {'needs' if failed == 1 else 'need'} a look."
        f" {counts['deleted_objects']:,} objects ({size_text(counts['deleted_bytes'])}) were deleted,"
        f" of {counts['found_objects']:,} ({size_text(counts['found_bytes'])}) that could be."
    )


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Draw a summary as text: a line for each repository, and what went wrong below it."""
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
