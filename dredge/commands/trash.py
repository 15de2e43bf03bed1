"""`dredge trash`: find, remove and restore unused rows in lakeFS's key-value store."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import printing
from dredge.commands.statements import forget_variable_command
from dredge.kv.opening import open_row_cleaner, open_row_reader
from dredge.kv.rows import ReadRate
from dredge.runs.clock import utc_now
from dredge.runs.report import duration_text, size_text
from dredge.storage import open_writer
from dredge.trash.findings import TrashConfig, TrashRestoreConfig

if TYPE_CHECKING:
    from dredge.kv.rows import ReadRate
    from dredge.trash.findings import TrashFinding
    from dredge.trash.report import CleanReport, ScanReport
    from dredge.trash.state import TrashState

URL_ENV = "DREDGE_KV_URL"
STATE_ENV = "DREDGE_TRASH_STATE"
TRASH_FOUND = 10
_NO_STATE = "memory://"
"""Placeholder for a scan without a state folder; never opened."""
_CONTEXT = {"help_option_names": ["-h", "--help"]}

type Option = Callable[[Callable[..., None]], Callable[..., None]]

_URL = click.argument("url", envvar=URL_ENV)
_APPLY = click.option("--apply", is_flag=True, help="Change the store (default: dry run).")
_JSON = printing.json_option("One JSON object a line.")


def _state(required: bool) -> Option:
    return click.option(
        "--state-uri",
        envvar=STATE_ENV,
        required=required,
        metavar="URI",
        help=f"Folder for the pending list, plans, undo files and reports: file:///…, s3://… [env {STATE_ENV}].",
    )


_SEGMENTS = click.option(
    "--segments",
    type=click.IntRange(min=1, max=64),
    default=4,
    show_default=True,
    help="DynamoDB: number of segments of the table to scan in parallel.",
)
_LIMITS = ("max_partitions", "max_rows", "max_bytes", "max_percent")


@click.group("trash", context_settings=_CONTEXT)
def command() -> None:
    """Find and remove trash in lakeFS's key-value store, beside a live server.

    URL is postgresql://user@host/database, dynamodb://TABLE?region=… or sqlite:///abs/file.db, or comes from
    DREDGE_KV_URL. Leave passwords out of it: PGPASSWORD, ~/.pgpass and AWS's own variables and profiles work.

    Unused rows of a scan or a clean wait for --grace-hours with the same bytes; a later clean with the same
    --state-uri removes them. docs/trash.md has the rules.
    """


@command.command("scan", context_settings=_CONTEXT)
@_URL
@_state(required=False)
@printing.setting_options(TrashConfig, without=("state_uri", "dry_run", *_LIMITS))
@_SEGMENTS
@click.option("--exit-code", is_flag=True, help=f"Exit with {TRASH_FOUND} if trash was found.")
@_JSON
def scan_command(
    url: str, state_uri: str | None, segments: int, exit_code: bool, as_json: bool, **settings: Any
) -> None:
    """Scan a store for trash, waiting rows, and rows for a person. Read-only.

    Without --state-uri the result is not kept, and everything waits.

    \b
    Examples:
      dredge trash scan postgresql://lakefs@db/lakefs --json

    \b
    Exit codes: 0 done (with --exit-code: no trash), 10 trash was found (with --exit-code), 2 bad input,
    3 refused (schema version, clock, another run, another store's state), 4 the store does not answer,
    5 a record cannot be read: there is no result.
    """
    from dredge.trash.steps import scan

    config = _config(state_uri or _NO_STATE, settings)
    state = _open_state(state_uri) if state_uri else None
    with closing(open_row_reader(url, ReadRate(config.read_rate, segments))) as store:
        report = scan(store, state, clock=utc_now, margins=config.margins, kinds=config.kinds or None)
    _print_findings(report, as_json)
    if exit_code and report.plan.findings:
        sys.exit(TRASH_FOUND)


@command.command("clean", context_settings=_CONTEXT)
@_URL
@_state(required=True)
@printing.setting_options(TrashConfig, without=("state_uri", "dry_run"))
@_APPLY
@_SEGMENTS
@click.option("--plan", "planned", metavar="RUN", help="Remove nothing beyond the plan of this scan.")
@_JSON
def clean_command(
    url: str,
    state_uri: str,
    segments: int,
    planned: str | None,
    apply: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Remove trash after its wait. A dry run without --apply.

    Every row is written to an undo file in the state folder before it is deleted; `dredge trash restore`
    restores them.

    \b
    Examples:
      dredge trash clean postgresql://lakefs@db/lakefs --state-uri s3://ops/trash

    \b
    Exit codes: 0 done, or a dry run; 1 part of the plan was not removed (the output has the reasons); 2 bad input;
    3 refused: a limit, another run, a restored database; 4 the store did not answer, also for a
    single repository (the next run verifies the removals, and tries the rest); 5 a record cannot be
    read; 9 some rows were removed, and permissions for the rest are missing; 10 alarm: a removed row is in
    use, and was restored, or the alarm is not acknowledged (dredge trash acknowledge).
    """
    from dredge.trash.steps import clean

    config = _config(state_uri, settings | {"dry_run": not apply})
    with closing(open_row_cleaner(url, ReadRate(config.read_rate, segments))) as store:
        report = clean(
            store,
            _open_state(state_uri),
            clock=utc_now,
            margins=config.margins,
            limits=config.limits,
            kinds=config.kinds or None,
            planned=planned,
            dry_run=config.dry_run,
        )
    if config.dry_run:
        _print_findings(report.scan, as_json)
    else:
        _print_outcomes(report, as_json)
    if report.status == "partial":
        sys.exit(1)


@command.command("restore", context_settings=_CONTEXT)
@_URL
@_state(required=True)
@printing.setting_options(TrashRestoreConfig, without=("state_uri", "dry_run"))
@_APPLY
@_JSON
def restore_command(url: str, apply: bool, as_json: bool, **settings: Any) -> None:
    """Restore removed rows of a run. Existing keys are not changed. A dry run without --apply.

    \b
    Examples:
      dredge trash restore postgresql://lakefs@db/lakefs --state-uri s3://ops/trash --run RUN

    \b
    Exit codes: 0 done, or a dry run; 2 bad input, no such run; 3 another run, another store's state; 4 the
    store does not answer; 5 an undo file is damaged.
    """
    from dredge.trash.restore import restore

    config = TrashRestoreConfig.from_params(printing.given(settings) | {"dry_run": not apply})
    state = _open_state(config.state_uri)
    with closing(open_row_cleaner(url)) as store:
        done = restore(store, state, config.run, partitions=config.partitions, dry_run=config.dry_run)
    if as_json:
        click.echo(json.dumps(done))
    elif config.dry_run:
        click.echo(f"run {config.run}: {done['rows']:,} rows would be restored (--apply restores them)")
    else:
        click.echo(
            f"run {config.run}: {done['rows_written']:,} rows restored,"
            f" {done['keys_existing']:,} keys existed already"
        )
    if done["markers_of_live_tokens"] and not as_json:
        click.echo(
            f"{done['markers_of_live_tokens']:,} queue markers are not restored: their tokens are in use, and the"
            " server would delete uploads"
        )


@command.command("acknowledge", context_settings=_CONTEXT)
@click.argument("state_uri", metavar="STATE", envvar=STATE_ENV)
@printing.ACKNOWLEDGE_REASON
@printing.BY
@_JSON
def acknowledge_command(state_uri: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """End the alarms of a state folder: removed rows are in use. No run removes rows until you end them.

    Without --reason it lists alarms: partitions, the removing run, and restored rows.

    \b
    Examples:
      dredge trash acknowledge s3://ops/trash
      dredge trash acknowledge s3://ops/trash --reason "a reset took three days, the grace is a week now"

    \b
    Exit codes: 0 acknowledged, or no alarm is open; 2 bad input; 4 the store of the folder does not answer;
    5 an alarm cannot be read; 10 an alarm is open.
    """
    from dredge.trash.alarms import check_folder

    state = _open_state(state_uri).writer
    check_folder(state)
    printing.show_alarms(state, state_uri, reason, by, as_json)


@command.command("unqueue", context_settings=_CONTEXT)
@_URL
@_state(required=True)
@_APPLY
@_JSON
def unqueue_command(url: str, state_uri: str, apply: bool, as_json: bool) -> None:
    """Remove tokens in use from the server's drop queue, before the server deletes acknowledged uploads.

    For rows that a scan reports as staging-live-but-queued. Removes markers only, never staged changes. A dry run
    without --apply.

    \b
    Examples:
      dredge trash unqueue postgresql://lakefs@db/lakefs --state-uri s3://ops/trash

    \b
    Exit codes: 0 done, or a dry run; 2 bad input; 3 another run, another store's state; 4 the store does not
    answer; 5 a record cannot be read: nothing was changed.
    """
    from dredge.trash.restore import unqueue

    with closing(open_row_cleaner(url)) as store:
        done = unqueue(store, _open_state(state_uri), clock=utc_now, dry_run=not apply)
    for line in done:
        words = f"{line['fate']}  {line['token']}  (used by {', '.join(line['branches'])})"
        click.echo(json.dumps(line) if as_json else words)
    if not done and not as_json:
        click.echo("no token in use is queued")


@command.command("check", context_settings=_CONTEXT)
@_URL
@_state(required=True)
@printing.json_option("The lines as one JSON object.")
def check_command(url: str, state_uri: str, as_json: bool) -> None:
    """Check everything that a scan and a clean need, within 20 seconds.

    Nothing is changed: a small object is written to the state folder, to try the rights, and removed again. Nothing is
    written to the key-value store.

    \b
    Examples:
      dredge trash check postgresql://lakefs@db/lakefs --state-uri s3://ops/trash

    \b
    Exit codes: 0 all is well, or there are warnings · 2 bad input · 3 there are errors: a run would fail
    """
    from dredge.trash.steps import check

    config = _config(state_uri, {})
    printing.show_preflight(
        check(config, lambda: closing(open_row_reader(url, ReadRate(config.read_rate, 1)))), as_json
    )


def _config(state_uri: str, settings: dict[str, Any]) -> TrashConfig:
    return TrashConfig.from_params({**printing.given(settings), "state_uri": state_uri})


def _open_state(uri: str) -> TrashState:
    from dredge.trash.state import TrashState

    return TrashState(open_writer(uri))


command.add_command(
    forget_variable_command("trash", "STATE_URI", "s3://ops/trash", lambda uri: _open_state(uri).writer)
)


def _print_findings(report: ScanReport, as_json: bool) -> None:
    from dredge.trash.report import finding_row

    now = report.plan.made
    if as_json:
        for finding in report.findings:
            click.echo(json.dumps(finding_row(finding, now)))
        return
    click.echo(f"{report.plan.location} · run {report.plan.run_id} · {now:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(f"{report.plan.partitions:,} partitions, {report.repositories:,} repositories")
    for note in report.notes:
        click.echo(note)
    for verdict, words in (("report", "For a person:"), ("wait", "Waits:"), ("trash", "Trash:")):
        found = [finding for finding in report.findings if finding.verdict == verdict]
        if found:
            click.echo(f"\n{words}")
            _print_table(
                (f.kind, _age(f, report), f"{f.rows:,}", size_text(f.size_bytes), f.why, f.name)
                for f in found
            )
    pending = report.pending()
    if pending["first_deletion"]:
        first = pending["first_deletion"][:16].replace("T", " ")
        click.echo(
            f"\n{pending['waiting']['count']:,} wait, {pending['found_now']:,} since this scan; the first may be"
            f" removed from {first} UTC on"
        )
    click.echo(f"\n{len(report.plan.findings):,} may be removed: {report.plan.rows:,} rows, ", nl=False)
    click.echo(f"{size_text(report.plan.size_bytes)} (dredge trash clean --apply removes them)")


def _print_outcomes(report: CleanReport, as_json: bool) -> None:
    from dredge.trash.report import outcome_row

    plan = report.scan.plan
    if as_json:
        for outcome in report.outcomes:
            click.echo(json.dumps(outcome_row(outcome, plan.made)))
        return
    click.echo(f"{plan.location} · run {plan.run_id} · {report.status}")
    _print_table(
        (item.fate, item.finding.kind, f"{item.rows:,}", item.finding.name, item.finding.why)
        for item in report.outcomes
    )
    click.echo(
        f"{report.rows_removed:,} rows removed; dredge trash restore --run {plan.run_id} restores them"
    )


def _print_table(lines: Iterable[tuple[str, ...]]) -> None:
    rows = list(lines)
    widths = [
        max((len(row[column]) for row in rows), default=0) for column in range(len(rows[0]) if rows else 0)
    ]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(f"  {'  '.join(cells)}".rstrip())


def _age(finding: TrashFinding, report: ScanReport) -> str:
    age = finding.age(report.plan.made)
    return "-" if age is None else duration_text(age)
