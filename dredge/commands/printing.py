"""Options and output of commands: settings, progress, reports, lists of runs, outcomes, pins, alarms and checks."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from dredge.errors import ConfigError, FormatError, PartialError, RefusedError, UnavailableError
from dredge.runs.clock import utc_now
from dredge.runs.folder import run_ids
from dredge.runs.payload import to_json
from dredge.runs.report import left_out, save_summary, size_text, summarize, summary_lines, table_lines
from dredge.runs.tasks import PROGRESS
from dredge.settings import Setting, settings_of
from dredge.storage import open_reader, store_clock
from dredge.xid import descending_time, new_descending_xid

if TYPE_CHECKING:
    from dredge.runs.payload import StepSummary
    from dredge.runs.preflight import Preflight
    from dredge.runs.report import Outcome
    from dredge.storage import ObjectWriter

type Command = Callable[..., Any]

REASON = click.option("--reason", required=True, help="The reason, in your words; kept with the state.")
BY = click.option("--by", metavar="NAME", help="Your name.  [default: the login name]")
QUIET = click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
AT_ONCE = click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repositories collected at the same time.",
)
ACKNOWLEDGE_REASON = click.option(
    "--reason", metavar="TEXT", help="Why runs may delete again; kept with the state. Empty: list alarms."
)


def json_option(help_text: str = "One JSON object.") -> Callable[[Command], Command]:
    """Make the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


JSON = json_option()


def setting_options(kind: type, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each setting of a dataclass, except those in `without`.

    The command gets them by the name of the setting; None for an option that was not given.
    """
    options = [_option(found) for found in settings_of(kind) if found.name not in without]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a value."""
    return {name: value for name, value in settings.items() if value is not None}


def take_settings(settings: dict[str, Any], kind: type) -> dict[str, Any]:
    """Remove the settings of a dataclass from others, and return them."""
    return {found.name: settings.pop(found.name) for found in settings_of(kind) if found.name in settings}


def _option(found: Setting) -> Callable[[Command], Command]:
    flag = found.name.replace("_", "-")
    words = f"{found.title}. {found.description}{_default(found)}"
    help_text = re.sub(r"\*\*(.+?)\*\*", r"\1", words).replace("`", "")  # a single asterisk is a glob
    if found.kind == "boolean":
        return click.option(f"--{flag}/--no-{flag}", found.name, default=None, help=help_text)
    if found.kind == "array":
        return click.option(
            f"--{flag}", found.name, metavar="NAME", multiple=True, help=f"{help_text} Repeatable."
        )
    metavar = "|".join(found.choices) if found.choices else _METAVARS[found.kind]
    return click.option(f"--{flag}", found.name, metavar=metavar, help=help_text)


_METAVARS = {"string": "TEXT", "number": "NUMBER", "integer": "NUMBER"}


def _default(found: Setting) -> str:
    if found.default is None:
        return ""
    value = str(found.default).lower() if isinstance(found.default, bool) else f"{found.default}"
    return f" Default: {value.removesuffix('.0')}."


type Report = Callable[[str], dict[str, Any]]
"""Reads the report of a run by the URI of its folder."""
_EXIT_CODES = {
    "failed": 1,
    "partial": 1,
    "awaiting_approval": 3,
    "rejected": 3,
    "refused": 3,
    "alarm": 10,
}
"""By the outcome of a run."""
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


class TerminalHandler(logging.Handler):
    """Writes log lines; on a terminal it draws progress with a known total as a bar."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._bar: Any = None  # of click's

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or move the bar."""
        progress = getattr(record, PROGRESS, None)
        if progress is not None and progress["total"] and self._stream.isatty():
            self._move(progress)
            return
        self._finish()
        click.echo(self.format(record), file=self._stream)

    def close(self) -> None:
        """End the line of a bar."""
        self._finish()
        super().close()

    def _move(self, progress: dict[str, Any]) -> None:
        label = f"{progress['step']} ({progress['unit']})"
        if self._bar is None or self._bar.label != label:
            self._finish()
            self._bar = click.progressbar(
                length=progress["total"], label=label, file=self._stream, show_pos=True
            )
            # The first record comes after some seconds of work; they count for the remaining time.
            self._bar.start = self._bar.last_eta = utc_now().timestamp() - progress["seconds"]
            self._bar.render_progress()
        self._bar.update(max(0, min(progress["done"], progress["total"]) - self._bar.pos))

    def _finish(self) -> None:
        if self._bar is not None:
            self._bar.render_finish()
            self._bar = None


def show_progress(quiet: bool) -> None:
    """Log progress to standard error; only errors if `quiet`, because the report has the warnings."""
    if quiet:
        logging.basicConfig(
            level=logging.ERROR, format="%(message)s"
        )  # without handlers Python prints warnings
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[TerminalHandler(sys.stderr)])


def log_lines(quiet: bool) -> None:
    """Log progress to standard error in lines, because several runs may work at once; no line if `quiet`."""
    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


@contextmanager
def print_resume(command: str, run_uri: str) -> Iterator[None]:
    """Print how to continue a local run after an error of a service or of permissions."""
    try:
        yield
    except (UnavailableError, PartialError):
        click.echo(f"Continue with: {command} resume {run_uri}", err=True)
        raise


def list_runs(uri: str, inside: str, limit: int, report: Report) -> list[dict[str, Any]]:
    """Return a row for each of the newest runs of a repository or run root; 0 is no limit. `inside`: folder of runs in
    a repository."""
    root = uri.rstrip("/")
    if not run_ids(open_reader(root)):
        root = f"{root}/{inside}"
    newest = run_ids(open_reader(root))[: limit or None]
    return [_describe_run(f"{root}/{run_id}", run_id, report) for run_id in newest]


def _describe_run(folder: str, run_id: str, report: Report) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run_id": run_id,
        "folder": folder,
        "repository": "",
        "started_at": descending_time(run_id).isoformat(),
        "outcome": "other tool",
        "deleted_objects": None,
        "pending_objects": None,
        "pending_bytes": None,
    }
    try:
        found = report(folder)
    except (ConfigError, FormatError):
        return row  # lakeFS's own collector writes its runs to the same folder
    counts = found["counts"]
    row |= {name: found[name] for name in ("repository", "started_at", "outcome")}
    row |= {name: counts.get(name) for name in ("deleted_objects", "pending_objects", "pending_bytes")}
    return row | ({"deleted_objects": found["deleted"]["objects"]} if "deleted" in found else {})


def show_runs(rows: Sequence[Mapping[str, Any]], uri: str, as_json: bool, more: Mapping[str, Any]) -> None:
    """Print the rows of `list_runs` for a URI; the JSON object also has the fields of `more`."""
    if as_json:
        click.echo(json.dumps({"runs": rows, **more}))
        return
    if not rows:
        click.echo(f"no runs below {uri}")
        return
    click.echo(
        f"{'RUN':<22}{'STARTED (UTC)':<21}{'REPOSITORY':<24}{'OUTCOME':<18}{'DELETED':>12}{'WAITING':>12}  FOLDER"
    )
    for row in rows:
        deleted = "" if row["deleted_objects"] is None else f"{row['deleted_objects']:,}"
        click.echo(
            f"{row['run_id']:<22}{row['started_at'][:19].replace('T', ' '):<21}{row['repository']:<24}"
            f"{row['outcome']:<18}{deleted:>12}{size_text(row['pending_bytes']):>12}  {row['folder']}"
        )


def exit_code(report: Mapping[str, Any]) -> int:
    """Return the exit code for a report."""
    return _EXIT_CODES.get(report["outcome"], 0)


def show_report(found: Mapping[str, Any], as_json: bool, run_uri: str = "") -> None:
    """Print a report, and the URI of the run's folder if it is given."""
    if as_json:
        click.echo(json.dumps(found))
        return
    click.secho(f"{found['title']}: {found['outcome_text']}", bold=True)
    click.echo(found["headline"])
    if found["what_to_do"]:
        click.echo(f"What to do: {found['what_to_do']}")
    click.echo()
    width = max((len(name) for name, _ in found["facts"]), default=0) + 2
    for name, value in found["facts"]:
        click.echo(f"{name + ':':<{width}}{value}")
    click.echo()
    for line in table_lines(found["rows"]):
        click.echo(line)
    for problem in found["problems"]:
        click.secho(f"! {problem}", fg="red")
    _show_warnings(found["warnings"])
    for item in found["findings"]:
        if item["verdict"] != "passed":
            click.secho(f"{item['verdict']}: {item['rule']}: {item['text']}", fg="red")
    click.echo()
    for step in found["steps"]:
        click.echo(f"{step['step']:<20}{step['status']:<10}{step['seconds']:>9}  {step['figures']}")
    if run_uri:
        click.echo(f"\nrun {run_uri}")


def save_and_show_summary(
    outcomes: Sequence[Outcome], skipped: Mapping[str, str], root: str, label: str, as_json: bool
) -> int:
    """Write the page about the runs of many repositories, and print it. `root`: URI of the folder for the page; ""
    writes no page. Returns the exit code: 9 if a repository needs a person."""
    now = utc_now()
    summary = summarize([*outcomes, *(left_out(name, why) for name, why in skipped.items())], now)
    page = save_summary(summary, root, f"{label}-{new_descending_xid(now)}") if root else ""
    if as_json:
        click.echo(json.dumps({**summary, "report_uri": page}))
    else:
        for line in summary_lines(summary):
            click.echo(line)
        if page:
            click.echo(f"\nsummary {page}")
    return 9 if summary["counts"]["failed_repositories"] else 0


def show_outcomes(summary: StepSummary, outcomes: Mapping[str, str], as_json: bool) -> None:
    """Print the summary of a restore or a purge; `outcomes` has the text after each number, by outcome."""
    if as_json:
        click.echo(json.dumps({"run_id": summary.run_id, "status": summary.status, **summary.counts}))
        return
    for outcome, words in outcomes.items():
        if objects := summary.counts[f"{outcome}_objects"]:
            click.echo(f"{objects:>12,}  {words}")
    if not summary.warnings and not any(summary.counts[f"{outcome}_objects"] for outcome in outcomes):
        click.echo("nothing is left to do")
    if pin := summary.details.get("pin"):
        click.echo(f"pinned: {pin}")
    _show_warnings(summary.warnings)


def show_pins(state: ObjectWriter, repository: str, end: str | None, as_json: bool) -> None:
    """End a pin if its id is given, then print the pins in force."""
    from dredge.undo.pins import active_pins, end_pin

    now = store_clock(state, "")
    if end is not None:
        end_pin(state, end, now)
    found = active_pins(state, now)
    if as_json:
        click.echo(json.dumps({"repository": repository, "pins": [to_json(pin) for pin in found]}))
        return
    for pin in found:
        click.echo(f"{pin.pin_id}  {pin.text}")
    if not found:
        click.echo(f"nothing of {repository} is pinned")


def show_alarms(state: ObjectWriter, subject: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """Print the open alarms of a state folder, and end them if a reason is given; exits with 10 if they stay open."""
    from dredge.undo.alarms import acknowledge_alarms, open_alarms

    found = open_alarms(state) if reason is None else acknowledge_alarms(state, subject, reason, by)
    ended = reason is not None
    if as_json:
        click.echo(json.dumps({"acknowledged": ended, "alarms": [to_json(alarm) for alarm in found]}))
    elif not found:
        click.echo("no alarm is open")
    for alarm in () if as_json else found:
        verb = "acknowledged" if ended else "open"
        click.echo(f"{verb}: {alarm.alarm_id} of {alarm.at:%Y-%m-%d %H:%M} UTC: {alarm.text}")
    if found and not ended:
        raise SystemExit(10)


def show_preflight(found: Preflight, as_json: bool) -> None:
    """Print the lines of a preflight; exits with 3 if there is an error."""
    if as_json:
        click.echo(json.dumps(found.to_report()))
    else:
        for line in found.lines:
            click.secho(f"{line.level:<8}", fg=_COLOURS[line.level], nl=False)
            click.echo(f"{line.check}: {line.text}")
            if line.todo:
                click.echo(f"        → {line.todo}")
        click.echo(f"{found.about}: {found.level}, after {found.seconds:.1f} s")
    if found.level == "error":
        sys.exit(RefusedError.exit_code)


def _show_warnings(warnings: Sequence[str]) -> None:
    for warning in warnings:
        click.secho(f"* {warning}", fg="yellow")
