"""`dredge gc`: collect a repository, read runs and reports, and look after the committed index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.answering import answer_commands
from dredge.commands.checks import gc_check_command
from dredge.commands.gc_alarms import acknowledge_command, state_of
from dredge.commands.gc_analysis import cost_command, plan_command, why_command
from dredge.commands.gc_lost import forget_lost_command, lost_command
from dredge.commands.gc_many import all_command
from dredge.commands.gc_metadata import metadata_command
from dredge.commands.gc_owner import lift_block_command, own_command
from dredge.commands.gc_undo import pins_command, purge_command, restore_command
from dredge.commands.options import setting_options
from dredge.commands.runs import exit_code_of, rows_of_runs, show_report, show_runs
from dredge.commands.terminal import naming_resume, show_progress
from dredge.commands.variables import forget_variable_command
from dredge.gc.config import GCConfig

if TYPE_CHECKING:
    from dredge.gc.run import Run
    from dredge.runs.tasks import LocalRunner


@click.group("gc", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Collect a repository, approve what waits for it, take deletions back, read the runs and reports of collections,
    and look after the index. Nothing is deleted without `--apply`."""


for _added in (
    gc_check_command,
    all_command,
    why_command,
    cost_command,
    plan_command,
    metadata_command,
    lost_command,
    forget_lost_command,
    *answer_commands("gc", "s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN", "dredge.gc.steps"),
    restore_command,
    purge_command,
    pins_command,
    acknowledge_command,
    own_command,
    lift_block_command,
    forget_variable_command("gc", "REPOSITORY", "my-repo", state_of),
):
    command.add_command(_added)


@command.command("run")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry run).")
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
                10 live objects had been deleted by an earlier run: see `dredge gc acknowledge`
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
    from dredge.gc.planning import reopen_run
    from dredge.runs.tasks import LocalRunner

    show_progress(quiet)
    with LocalRunner(processes) as runner:
        _show_outcome(reopen_run(uri.rstrip("/")), runner, as_json)


@command.command("runs")
@click.argument("uri", metavar="NAMESPACE")
@click.option("--limit", default=20, show_default=True, help="Newest runs to show; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
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
    from dredge.gc.run import RUNS

    show_runs(rows_of_runs(uri, RUNS, limit, _report, _deleted), uri, as_json)


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
    show_report(found, as_json)
    raise SystemExit(exit_code_of(found))


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
    from dredge.runs.failures import closing_with

    def show() -> None:
        show_report(_report(planned.plan.run_uri), as_json, planned.plan.run_uri)

    with naming_resume("dredge gc", planned.plan.run_uri), closing_with(show, "showing the report"):
        steps.to_its_end(planned, runner)
    found = _report(planned.plan.run_uri)
    if found["outcome"] not in ("success", "dry_run"):
        problems = found["problems"] or ["some of the objects stayed"]
        raise PartialError(f"run {planned.plan.run_id} is {found['outcome']}. {problems[0]}")


def _verify(uri: str, against_ranges: bool, rebuild: bool = False) -> dict[str, Any]:
    from datetime import UTC, datetime

    from dredge.gc.index.upkeep import rebuild_index, verify_index
    from dredge.gc.run import open_state
    from dredge.storage import open_reader
    from dredge.xid import new_descending_xid

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


def _report(uri: str) -> dict[str, Any]:
    from dredge.gc.save_report.report import read_report

    return read_report(uri)


def _deleted(found: dict[str, Any]) -> int | None:
    deleted: int | None = found["counts"].get("deleted_objects")
    return deleted
