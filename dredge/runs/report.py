"""Reports of runs as HTML pages and as text: for a run, and for the runs of many repositories.

Also sizes, durations, curves, waits and approvals as text, and the results of a run's steps, complete or not.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dredge.errors import AlarmError, DredgeError, FormatError, NotFoundError, RejectedError
from dredge.runs.failures import as_defects
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.payload import Json, StepOutput, StepSummary, to_json
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.parallel import ordered_map

if TYPE_CHECKING:
    import jinja2


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = (("days", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_DAYS_FROM_SECONDS = 48 * 3600


def size_text(size_bytes: int | None) -> str:
    """Format a size, such as "1.4 MiB"; "" for None."""
    if size_bytes is None:
        return ""
    value = float(size_bytes)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def duration_text(span: timedelta) -> str:
    """Format a duration with its two largest units, such as "12 s", "13 h 12 min" or "2 days"."""
    seconds = abs(span.total_seconds())
    sign = "-" if span < timedelta(0) else ""
    if seconds < 59.95:
        return f"{sign}{seconds:.3g} s"
    left = round(seconds)
    words: list[tuple[int, str]] = []
    for unit, size in _SPANS if left >= _DAYS_FROM_SECONDS else _SPANS[1:]:
        count, left = divmod(left, size)
        if count or words:
            words.append((count, unit))
    return sign + " ".join(f"{count} {unit}" for count, unit in words[:2] if count)


def number_of(count: float, noun: str, several: str = "") -> str:
    """Format a number of things, such as "1 day" or "2,000 days". `several`: plural of the noun; "" adds an s."""
    return f"{count:,g} {noun}" if count == 1 else f"{count:,.12g} {several or f'{noun}s'}"


# Includes for all pages, such as a curve.
_SHARED = Path(__file__).parent / "templates"


def render(template: Path, **values: Any) -> str:
    """Render a Jinja template; values are escaped, and a missing value is an error. `template` is the file; other files
    of its folder can be included."""
    return _templates(template.parent).get_template(template.name).render(values)


@cache
def _templates(folder: Path) -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 16, 36


def place_curve(
    marks: Sequence[tuple[int, int, str]], title: str, axis: str, text: Callable[[int], str]
) -> dict[str, Any]:
    """Compute the points of a curve. `marks`: at least one: position on the axis, height from 0, and a label; sorted by
    position; returns JSON for pages."""
    first, last, most = marks[0][0], marks[-1][0], max(1, *(height for _, height, _ in marks))
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    dots = [
        {
            "x": round(_LEFT + across * (place - first) / max(1, last - first), 1),
            "y": round(_TOP + down * (1 - height / most), 1),
            "place": place,
            "text": about,
        }
        for place, height, about in marks
    ]
    return {
        "title": title,
        "axis": axis,
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "top": _TOP,
        "base": _HEIGHT - _BOTTOM,
        "most": text(most),
        "least": text(0),
        "dots": dots,
    }


OUTCOMES = {
    "success": "done",
    "dry_run": "dry run: nothing was deleted",
    "awaiting_approval": "awaiting approval: nothing was deleted",
    "rejected": "rejected: nothing was deleted",
    "refused": "refused by a guard: nothing was deleted",
    "alarm": "alarm: live objects had been deleted by an earlier run; this run deleted nothing",
    "partial": "not everything was deleted",
    "failed": "failed",
    "unfinished": "not finished",
}
"""Texts of `RunResults.outcome`."""
_AT_ONCE = 16
DRY = "dry_run"
# Outcomes of complete runs, and statuses of complete steps.
ENDED = ("success", DRY)


class StepResult(Struct, frozen=True):
    """The result of a step."""

    step: str
    summary: StepSummary | None  # of its newest try, complete or not; None without one
    failure: dict[str, Any] | None  # as `RunFolder.read_failure` returns it, or None

    @classmethod
    def read(cls, folder: RunFolder, step: str, known: StepSummary | None = None) -> StepResult:
        """Read the result of a step, unless its complete summary is known; a damaged summary is a failure."""
        try:
            done = known or folder.read_summary(step)
            failure = folder.read_open_failure(step, done)
            return cls(step, done or folder.read_incomplete(step), failure)
        except FormatError as error:
            return cls(step, None, {"step": step, "message": str(error)})

    @property
    def status(self) -> str:
        """The summary's status, "rejected", "alarm", "failed" or "not done"."""
        summary, failure = self.summary, self.failure
        if summary is not None and (failure is None or summary.status not in ENDED):
            return summary.status
        if failure is None:
            return "not done"
        kind = failure.get("kind")
        return kind if kind in (RejectedError.kind, AlarmError.kind) else "failed"

    def to_details(self) -> dict[str, Any]:
        """The result as a row of a report's table of steps."""
        summary = self.summary
        counts = {} if summary is None else dict(summary.counts)
        figures = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in counts.items() if value)
        return {
            "step": self.step,
            "status": self.status,
            "seconds": "" if summary is None else f"{summary.seconds:.1f}",
            "figures": figures or self.problem,
            "counts": counts,
        }

    @property
    def problem(self) -> str:
        """The failure as text, or ""."""
        return f"{self.step}: {self.failure['message']}" if self.failure is not None else ""


class RunResults(Struct, frozen=True):
    """The results of a run's steps, in their order."""

    steps: dict[str, StepResult]
    dry_run: bool

    @classmethod
    def read(
        cls,
        folder: RunFolder,
        outputs: Sequence[type[StepOutput]],
        dry_run: bool,
        known: Mapping[str, StepSummary] | None = None,
    ) -> RunResults:
        """Read the results of steps, unless their complete summaries are known."""
        read, names = known or {}, [item.STEP for item in outputs]

        def read_one(name: str) -> StepResult:
            return StepResult.read(folder, name, read.get(name))

        return cls(dict(zip(names, ordered_map(read_one, names, _AT_ONCE), strict=True)), dry_run)

    def of[O: StepOutput](self, output: type[O]) -> O | None:
        """Return a step's output, complete or not; None without a summary."""
        result = self.steps.get(output.STEP)
        return None if result is None or result.summary is None else output.of(result.summary)

    @property
    def summaries(self) -> Iterator[StepSummary]:
        """All summaries."""
        return (result.summary for result in self.steps.values() if result.summary is not None)

    def to_details(self) -> dict[str, Any]:
        """Problems, warnings and the table of steps, for a report."""
        return {
            "problems": [result.problem for result in self.steps.values() if result.problem],
            "warnings": [warning for summary in self.summaries for warning in summary.warnings],
            "steps": [result.to_details() for result in self.steps.values()],
        }

    @property
    def failed(self) -> StepResult | None:
        """The first failed step."""
        return next((result for result in self.steps.values() if result.failure is not None), None)

    @property
    def outcome(self) -> str:
        """ "success", "dry_run", "unfinished", or the status of the failed step."""
        if self.failed is not None:
            return self.failed.status
        if any(result.summary is None for result in self.steps.values()):
            return "unfinished"
        return "dry_run" if self.dry_run else "success"


def describe_waiting(pending: Mapping[str, Any]) -> str:
    """Return a sentence about waiting objects, and when the first may be deleted; "" without any."""
    if not pending or not pending["waiting"]["objects"]:
        return ""
    found, waiting, dates = pending["found_now"], pending["waiting"], _dates(pending)
    new = f"{found['objects']:,} of them since this run"
    text = f"{waiting['objects']:,} objects ({waiting['bytes']:,} bytes) wait, {new}"
    return f"{text}; a run after {dates[0]} can delete the first." if dates else f"{text}."


def list_waiting_facts(pending: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts about the pending list, from `Waits.to_details`."""
    if not pending:
        return

    def words(found: Mapping[str, int]) -> str:
        return f"{found['objects']:,} objects ({size_text(found['bytes'])})"

    yield "Found now", words(pending["found_now"])
    dates = _dates(pending)
    when = f"; a run may delete the first from {dates[0]} on, the last from {dates[-1]} on" if dates else ""
    yield "Waiting", f"{words(pending['waiting'])}{when}"
    yield "Confirmed", f"{words(pending['confirmed'])} that an earlier run found, and whose wait is over"


def _dates(pending: Mapping[str, Any]) -> list[str]:
    texts = [pending["first_deletion"], pending["last_deletion"]]
    return [f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC" for text in texts if text is not None]


def approval_text(said: Mapping[str, Any]) -> str:
    """Format a request and its answer for a report."""
    if said["state"] == "waiting":
        return f"awaited until {said['answer_until'][:16].replace('T', ' ')} UTC. {said['why']}"
    at = f"{said['at'][:19].replace('T', ' ')} UTC"
    if not said["by"]:
        return f"not approved by {at}. {said['why']}"
    return f"{said['state']} by {said['by']} ({said['through']}), {at}. {said['why']}"


def approval_action(outcome: str, command: str) -> str:
    """The advice about an approval for the reader of a report; "" for other outcomes."""
    if outcome == "awaiting_approval":
        return (
            "Read the candidates below. Then approve or reject them: in Airflow under Required Actions, for any run"
            f" with `{command} approve` or `{command} reject` and the run folder. Continue a local run with"
            f" `{command} resume`."
        )
    if outcome == "rejected":
        return "No action is needed. A new run makes a new mark, and asks again if necessary."
    return ""


log = logging.getLogger("dredge")


class ReportRow(Struct, frozen=True):
    """Objects of a kind with the same outcome."""

    kind: str  # such as "unreferenced"
    verdict: str  # such as "deleted" or "kept"
    why: str
    objects: int
    size_bytes: int | None = None  # total size; None if unknown


class Column(Struct, frozen=True):
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


_TEMPLATE = _SHARED / "report.html.j2"


def load_page() -> None:
    """Compile the template of `render_html`."""
    _templates(_TEMPLATE.parent).get_template(_TEMPLATE.name)


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
_PAGE = "report.html"
_SUMMARY_TEMPLATE = _SHARED / "summary.html.j2"
_SUMMARIES = "summaries"


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a repository."""

    repository: str
    outcome: str  # of its run's report; "left_out" without a run, "failed" if unknown
    text: str
    why: str = ""  # the error, or the reason to leave it out; "" if absent
    found_objects: int = 0
    found_bytes: int = 0
    deleted_objects: int = 0
    deleted_bytes: int = 0
    run_uri: str = ""  # folder of the run; "" without a plan
    report_uri: str = ""  # page of the report; "" if absent

    @property
    def is_good(self) -> bool:
        """Whether no person is needed."""
        return self.outcome in ENDED or self.outcome == LEFT_OUT


def left_out(repository: str, why: str) -> Outcome:
    """Return the outcome of a repository without a run."""
    return Outcome(repository=repository, outcome=LEFT_OUT, text="left out", why=why)


def outcome_of(
    repository: str, run_uri: str, why: str = "", options: StorageOptions | None = None
) -> Outcome:
    """The outcome of a repository's run, from its report, or else from the known error."""
    try:
        if not run_uri:
            raise NotFoundError("the run has no plan; see the log of its first failed task")
        report = read_json(open_reader(run_uri, options), "report.json")
    except DredgeError as error:
        why = why or str(error)
        return Outcome(repository=repository, outcome=FAILED, text=FAILED, why=why, run_uri=run_uri)
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


def collect_each(
    repositories: Sequence[str],
    plan: Callable[[str], str],
    collect: Callable[[str], object],
    at_once: int = 1,
) -> Iterator[Outcome]:
    """Collect repositories in this process, each with its own run, and yield the outcomes in order. A failed run stops
    no other run. `plan`: plans the run of a repository, and returns the URI of its folder. `collect`: does a planned
    run, by the URI of its folder."""

    def collect_one(repository: str) -> Outcome:
        run_uri = why = ""
        try:
            with as_defects(f"the run of {repository}"):
                run_uri = plan(repository)
                collect(run_uri)
        except DredgeError as error:
            why = str(error)
            log.error("%s: %s", repository, why)
        return outcome_of(repository, run_uri, why)

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
    """Write a summary as JSON and as a page. `root`: URI of the folder of summaries. `name`: of this summary; replaces
    a summary of the same name. Returns the URI of the page."""
    folder = f"{root}/{_SUMMARIES}"
    writer = open_writer(folder, options)
    writer.put(f"{name}.json", json.dumps(summary, indent=1).encode())
    page = render(_SUMMARY_TEMPLATE, **summary, headline=headline(summary), size_text=size_text)
    writer.put(f"{name}.html", page.encode())
    return f"{folder}/{name}.html"


def headline(summary: Mapping[str, Any]) -> str:
    """Summarize the outcomes in a sentence."""
    counts = summary["counts"]
    collected, failed = counts["collected_repositories"], counts["failed_repositories"]
    was = "were" if counts["repositories"] != 1 else "was"
    done = "checked in dry runs" if collected and counts.get("dry_repositories") == collected else "collected"
    return (
        f"{collected:,} of {number_of(counts['repositories'], 'repository', 'repositories')} {was} {done},"
        f" {counts['left_out_repositories']:,} left out, {failed:,} {'needs' if failed == 1 else 'need'} a person."
        f" {counts['deleted_objects']:,} objects ({size_text(counts['deleted_bytes'])}) were deleted, of"
        f" {counts['found_objects']:,} candidates ({size_text(counts['found_bytes'])})."
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
