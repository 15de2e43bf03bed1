"""`dredge gc`: collect a repository, read runs and reports, and look after the committed index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.gc_analysis import cost_command, plan_command, why_command
from dredge.commands.gc_approve import approve_command, reject_command
from dredge.commands.gc_many import all_command
from dredge.commands.gc_metadata import metadata_command
from dredge.commands.gc_undo import pins_command, purge_command, restore_command
from dredge.commands.options import setting_options
from dredge.commands.terminal import show_progress
from dredge.gc.config import GCConfig

if TYPE_CHECKING:
    from dredge.gc.run import Run
    from dredge.runs.tasks import LocalRunner


@click.group("gc", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Collect a repository, approve what waits for it, take deletions back, read the runs and reports of collections,
    and look after the index. Nothing is deleted without `--apply`."""


for _added in (
    all_command,
    why_command,
    cost_command,
    plan_command,
    metadata_command,
    approve_command,
    reject_command,
    restore_command,
    purge_command,
    pins_command,
):
    command.add_command(_added)


@command.command("run")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete; without, the run only says what would go.")
@setting_options(GCConfig, without=("repository", "dry_run", "approvers"))
@click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON object.")
def run(repository: str, apply: bool, processes: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Collect a lakeFS repository here, without Airflow and Spark. Only says what would go, unless --apply is given.

    The server is found by LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID and
    LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY, the store by the usual AWS_… variables. Settings, limits and guards are those
    of the DAG lakefs_gc, and so are the run's folder and its report.

    \b
    Examples:
      dredge gc run my-repo
      dredge gc run my-repo --apply --processes 4 --undo versions

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no way to the server · 3 refused or held by a guard, or another run
                is at work · 4 the server or the store is not available: run it again
                5 data that cannot be trusted: nothing (more) was deleted · 6 no such repository
                9 some objects were deleted, and the rest could not be
    """
    given = {name: value for name, value in settings.items() if value is not None}
    config = GCConfig.from_params({**given, "repository": repository, "dry_run": not apply})
    show_progress(quiet)

    from dredge.gc import steps
    from dredge.runs.tasks import LocalRunner

    with LocalRunner(processes) as runner:
        _show_outcome(steps.Run.open(steps.plan_run(config).run_uri), runner, as_json)


@command.command("resume")
@click.argument("uri", metavar="RUN")
@click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON object.")
def resume(uri: str, processes: int, quiet: bool, as_json: bool) -> None:
    """Go on with a run of `dredge gc run` from what is complete: after its approval, or after a step failed.

    Servers and stores are found as by `dredge gc run`.

    \b
    Examples:
      dredge gc resume s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN

    \b
    Exit codes: those of `dredge gc run`
    """
    from dredge.gc.resuming import reopen_run
    from dredge.runs.tasks import LocalRunner

    show_progress(quiet)
    with LocalRunner(processes) as runner:
        _show_outcome(reopen_run(uri.rstrip("/")), runner, as_json)


@command.command("runs")
@click.argument("uri", metavar="NAMESPACE")
@click.option("--limit", default=20, show_default=True, help="Newest runs to show; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run and line.")
def runs(uri: str, limit: int, as_json: bool) -> None:
    """List the runs of a repository, newest first.

    NAMESPACE is the repository's storage namespace, such as s3://bucket/repo, or the run root that its runs
    were given. Stores are reached by the usual AWS_… variables.

    \b
    Examples:
      dredge gc runs s3://bucket/my-repo --limit 5

    \b
    Exit codes: 0 listed (also when there are none) · 2 bad input · 4 the store is not available
    """
    found = _runs(uri, limit)
    if as_json:
        for row in found:
            click.echo(json.dumps(row))
        return
    if not found:
        click.echo(f"no runs below {uri}")
        return
    click.echo(f"{'RUN':<22}{'STARTED (UTC)':<21}{'REPOSITORY':<24}{'OUTCOME':<18}{'DELETED':>12}  FOLDER")
    for row in found:
        deleted = "" if row["deleted_objects"] is None else f"{row['deleted_objects']:,}"
        click.echo(
            f"{row['run_id']:<22}{row['started_at'][:19].replace('T', ' '):<21}{row['repository']:<24}"
            f"{row['outcome']:<18}{deleted:>12}  {row['folder']}"
        )


@command.command("report")
@click.argument("uri", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON object.")
def report(uri: str, as_json: bool) -> None:
    """Show the report of a run.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it. Also works while the run goes on and
    after it failed.

    \b
    Examples:
      dredge gc report s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --json

    \b
    Exit codes: 0 the run is a success, a dry run or still going on · 1 it failed or deleted only a part
                2 no such run · 3 a guard refused it, it awaits approval, or was rejected
                4 the store is not available
    """
    found = _report(uri)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    # "held" is what earlier versions called a run that was refused or awaits approval.
    codes = {"failed": 1, "partial": 1, "awaiting_approval": 3, "rejected": 3, "refused": 3, "held": 3}
    raise SystemExit(codes.get(found["outcome"], 0))


@command.group("index")
def index() -> None:
    """Look after the committed index: what every range names, kept for the life of a repository."""


@index.command("verify")
@click.argument("uri", metavar="NAMESPACE")
@click.option("--against-ranges", is_flag=True, help="Decode every range again and compare, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(uri: str, against_ranges: bool, as_json: bool) -> None:
    """Read every part of the index and compare it with its digest.

    NAMESPACE is the repository's storage namespace, such as s3://bucket/repo. A run does the same with the
    parts it reads, so a damaged index costs time, never an object.

    \b
    Examples:
      dredge gc index verify s3://bucket/my-repo --against-ranges

    \b
    Exit codes: 0 all is well · 1 something is damaged or wrong: rebuild it · 2 bad input
                4 the store is not available
    """
    found = _verify(uri, against_ranges)
    _show_verified(found, as_json)
    raise SystemExit(0 if found["good"] else 1)


@index.command("rebuild")
@click.argument("uri", metavar="NAMESPACE")
@click.option("--against-ranges", is_flag=True, help="Look for wrong parts by decoding every range, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def rebuild(uri: str, against_ranges: bool, as_json: bool) -> None:
    """Decode the ranges again whose part of the index is damaged or wrong. Files are added, none is changed.

    \b
    Examples:
      dredge gc index rebuild s3://bucket/my-repo

    \b
    Exit codes: 0 done · 2 bad input · 4 the store is not available
    """
    found = _verify(uri, against_ranges, rebuild=True)
    _show_verified(found, as_json)


def _show_outcome(planned: Run, runner: LocalRunner, as_json: bool) -> None:
    """Do what is left of a run, and show the report of whatever became of it."""
    from dredge.errors import PartialError
    from dredge.gc import steps

    try:
        try:
            steps.run_steps(planned, runner)
        finally:
            steps.release_lease(planned)
    finally:
        uri = planned.plan.run_uri
        found = _report(uri)
        if as_json:
            click.echo(json.dumps(found))
        else:
            _show(found)
            click.echo(f"\nrun {uri}")
    if found["outcome"] not in ("success", "dry_run"):
        problems = found["problems"] or ["some of the objects stayed"]
        raise PartialError(f"run {planned.plan.run_id} is {found['outcome']}. {problems[0]}")


def _verify(uri: str, against_ranges: bool, rebuild: bool = False) -> dict[str, Any]:
    from datetime import UTC, datetime

    from dredge.gc.index.upkeep import rebuild_index, verify_index
    from dredge.gc.run import open_state
    from dredge.graveler.xid import new_descending_xid
    from dredge.storage import open_reader

    reader, state = open_reader(uri), open_state(uri)
    found = verify_index(reader, state, uri, against_ranges)
    rebuilt = 0
    if rebuild and not found.is_good:
        label = new_descending_xid(datetime.now(UTC))
        rebuilt = rebuild_index(reader, state, uri, label, found)
    return {
        "ranges": found.ranges,
        "parts": found.parts,
        "damaged_parts": found.damaged,
        "wrong_ranges": found.wrong,
        "unread_ranges": found.unread,
        "rebuilt_ranges": rebuilt,
        "good": found.is_good,
    }


def _show_verified(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['ranges']:,} ranges in {found['parts']:,} parts")
    for name, words in (
        ("damaged_parts", "damaged"),
        ("wrong_ranges", "wrong"),
        ("unread_ranges", "not readable"),
    ):
        for item in found[name]:
            click.secho(f"{words}: {item}", fg="red")
    if found["rebuilt_ranges"]:
        click.echo(f"{found['rebuilt_ranges']:,} ranges were decoded again")
    elif found["good"]:
        click.echo("all is well")


def _runs(uri: str, limit: int) -> list[dict[str, Any]]:
    from dredge.gc.plan import RUNS
    from dredge.runs.lifetimes import run_ids
    from dredge.storage import open_reader

    root = uri.rstrip("/")
    if not run_ids(open_reader(root)):
        root = f"{root}/{RUNS}"
    found = run_ids(open_reader(root))
    return [_run(f"{root}/{run_id}", run_id) for run_id in (found[:limit] if limit > 0 else found)]


def _run(folder: str, run_id: str) -> dict[str, Any]:
    from dredge.errors import ConfigError, FormatError
    from dredge.graveler.xid import descending_time

    row: dict[str, Any] = {"run_id": run_id, "folder": folder, "repository": "", "deleted_objects": None}
    try:
        found = _report(folder)
    except (ConfigError, FormatError):
        # lakeFS's own collector writes its runs to the same place.
        started = descending_time(run_id).isoformat()
        return {**row, "started_at": started, "outcome": "other tool"}
    return {
        **row,
        "repository": found["repository"],
        "started_at": found["started_at"],
        "outcome": found["outcome"],
        "deleted_objects": found["counts"].get("deleted_objects"),
    }


def _report(uri: str) -> dict[str, Any]:
    from dredge.gc.save_report.reading import read_report

    return read_report(uri)


def _show(found: dict[str, Any]) -> None:
    from dredge.runs.report_rows import table_lines

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
    for warning in found["warnings"]:
        click.secho(f"* {warning}", fg="yellow")
    bad = [item for item in found["findings"] if item["verdict"] != "passed"]
    for item in bad:
        click.secho(f"{item['verdict']}: {item['rule']}: {item['text']}", fg="red")
    click.echo()
    for step in found["steps"]:
        click.echo(f"{step['step']:<20}{step['status']:<10}{step['seconds']:>9}  {step['figures']}")
