"""`dredge gc`: collect repositories, read runs and reports, and maintain the committed index."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.gc_analysis import cost_command, metadata_command, plan_command, why_command
from dredge.commands.gc_recovery import (
    acknowledge_command,
    forget_lost_command,
    lift_block_command,
    lost_command,
    open_repository_state,
    own_command,
    pins_command,
    purge_command,
    restore_command,
)
from dredge.commands.options import (
    AT_ONCE,
    JSON,
    PROCESSES,
    QUIET,
    given,
    json_option,
    setting_options,
    take_settings,
)
from dredge.commands.printing import (
    exit_code,
    list_runs,
    log_lines,
    print_resume,
    save_and_show_summary,
    show_preflight,
    show_progress,
    show_report,
    show_runs,
)
from dredge.commands.statements import answer_commands, forget_variable_command
from dredge.gc.config import GCConfig
from dredge.gc.many.choose import ManyConfig

if TYPE_CHECKING:
    from dredge.gc.run import Run
    from dredge.runs.tasks import LocalRunner


@click.group("gc", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Collect a repository, approve candidates, restore deletions, read runs and reports, and maintain the index.
    Nothing is deleted without `--apply`."""


for _added in (
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
    forget_variable_command("gc", "REPOSITORY", "my-repo", open_repository_state),
):
    command.add_command(_added)


@command.command("run")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry run).")
@setting_options(GCConfig, without=("repository", "dry_run", "approvers"))
@PROCESSES
@QUIET
@json_option("The whole report as one JSON object.")
def run(repository: str, apply: bool, processes: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Collect a lakeFS repository here, without Airflow and Spark. A dry run without --apply.

    The server is found by LAKECTL_SERVER_ENDPOINT_URL, LAKECTL_CREDENTIALS_ACCESS_KEY_ID and
    LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY, the store by the usual AWS_… variables. Settings, limits and guards are those
    of the DAG lakefs_gc, and so are the run's folder and its report.

    \b
    Examples:
      dredge gc run my-repo
      dredge gc run my-repo --apply --processes 4 --undo versions

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no way to the server · 3 refused or held by a guard, or another run
                is in progress · 4 the server or the store is not available: run it again
                5 data that cannot be trusted: nothing (more) was deleted · 6 no such repository
                9 some objects were deleted, and the rest could not be
                10 live objects had been deleted by an earlier run: see `dredge gc acknowledge`
    """
    config = GCConfig.from_params({**given(settings), "repository": repository, "dry_run": not apply})
    show_progress(quiet)

    from dredge.gc import steps
    from dredge.runs.tasks import LocalRunner

    with LocalRunner(processes) as runner:
        plan = steps.plan_run(config)
        _show_outcome(steps.Run.open(plan.run_uri, plan=plan), runner, as_json)


@command.command("resume")
@click.argument("uri", metavar="RUN")
@PROCESSES
@QUIET
@json_option("The whole report as one JSON object.")
def resume(uri: str, processes: int, quiet: bool, as_json: bool) -> None:
    """Continue a run of `dredge gc run` after its approval, or after a step failed.

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
@JSON
def runs(uri: str, limit: int, as_json: bool) -> None:
    """List the runs of a repository, newest first.

    NAMESPACE is the repository's storage namespace, such as s3://bucket/repo, or a run root. Stores are reached by the
    usual AWS_… variables.

    \b
    Examples:
      dredge gc runs s3://bucket/my-repo --limit 5

    \b
    Exit codes: 0 listed (also when there are none) · 2 bad input · 4 the store is not available
    """
    from dredge.gc.run import RUNS

    show_runs(list_runs(uri, RUNS, limit, _report, _deleted), uri, as_json)


@command.command("report")
@click.argument("uri", metavar="RUN")
@json_option("The whole report as one JSON object.")
def report(uri: str, as_json: bool) -> None:
    """Show the report of a run.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it. Also works during the run and
    after it failed.

    \b
    Examples:
      dredge gc report s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --json

    \b
    Exit codes: 0 the run is a success, a dry run or in progress · 1 it failed or deleted only a part
                2 no such run · 3 a guard refused it, it awaits approval, or was rejected
                4 the store is not available
    """
    found = _report(uri)
    show_report(found, as_json)
    raise SystemExit(exit_code(found))


@command.group("index")
def index() -> None:
    """Maintain the committed index: the addresses in each range."""


@index.command("verify")
@click.argument("uri", metavar="NAMESPACE")
@click.option("--against-ranges", is_flag=True, help="Decode every range again and compare, too.")
@JSON
def verify(uri: str, against_ranges: bool, as_json: bool) -> None:
    """Read every part of the index and compare it with its digest.

    NAMESPACE is the repository's storage namespace, such as s3://bucket/repo. A run does the same with the
    parts it reads.

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
@JSON
def rebuild(uri: str, against_ranges: bool, as_json: bool) -> None:
    """Decode the ranges again whose part of the index is damaged or wrong. Files are added, and no file is changed.

    \b
    Examples:
      dredge gc index rebuild s3://bucket/my-repo

    \b
    Exit codes: 0 done · 2 bad input · 4 the store is not available
    """
    found = _verify(uri, against_ranges, rebuild=True)
    _show_verified(found, as_json)


def _show_outcome(planned: Run, runner: LocalRunner, as_json: bool) -> None:
    """Do the remaining steps of a run, and show its report, also when a step fails."""
    from dredge.errors import PartialError
    from dredge.gc import steps
    from dredge.runs.failures import closing_with

    def show() -> None:
        show_report(_report(planned.plan.run_uri), as_json, planned.plan.run_uri)

    with print_resume("dredge gc", planned.plan.run_uri), closing_with(show, "showing the report"):
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


@command.command("all")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry runs).")
@setting_options(ManyConfig)
@AT_ONCE
@setting_options(GCConfig, without=("repository", "dry_run"))
@QUIET
@json_option("The summary as one JSON object.")
def all_command(apply: bool, at_once: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Collect all repositories of a server here, each by its own run. Dry runs without --apply.

    Server and store are found as by `dredge gc run`, and the settings are those of each run. Repositories on which
    another collector works are left out. A summary of all runs is written as a page.

    \b
    Examples:
      dredge gc all --json

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no way to the server
                4 the server is not available · 9 some repositories need a person; the others are done
    """
    asked = given(settings)
    many = ManyConfig.from_params(take_settings(asked, ManyConfig))

    def make_config(repository: str) -> GCConfig:
        return GCConfig.from_params({**asked, "repository": repository, "dry_run": not apply})

    make_config("all")  # wrong settings fail before the first run
    log_lines(quiet)
    raise SystemExit(_collect(many, make_config, at_once, asked.get("run_root"), as_json))


def _collect(many: ManyConfig, make_config: Any, at_once: int, run_root: str | None, as_json: bool) -> int:
    from dredge.gc import steps
    from dredge.gc.many.choose import choose_repositories
    from dredge.lakefs import LakeFSClient
    from dredge.runs.report import collect_each
    from dredge.runs.tasks import LocalRunner

    client = LakeFSClient.from_env()
    chosen = choose_repositories(many, client, None, run_root)
    with LocalRunner() as runner:
        outcomes = list(
            collect_each(
                chosen.repositories,
                lambda name: steps.plan_run(make_config(name), client=client).run_uri,
                lambda run_uri: steps.to_its_end(steps.Run.open(run_uri, client=client), runner),
                at_once,
            )
        )
    return save_and_show_summary(outcomes, chosen.left_out, chosen.summary_root, "gc-all", as_json)


@command.command("check")
@click.argument("repository")
@setting_options(GCConfig, without=("repository", "dry_run", "approvers"))
@JSON
def check_command(repository: str, as_json: bool, **settings: object) -> None:
    """Check everything that a collection of REPOSITORY needs, within 20 seconds.

    Server, store and key-value store are found as by `dredge gc run`, and so are settings. Nothing is changed: a small
    object is written below data/ and below _lakefs/, to try the rights, and removed again.

    \b
    Examples:
      dredge gc check my-repo
      dredge gc check my-repo --undo versions --json

    \b
    Exit codes: 0 all is well, or there are warnings · 2 bad input · 3 there are errors: a run would fail
    """
    from dredge.gc.preflight import check

    config = GCConfig.from_params({**given(settings), "repository": repository, "dry_run": False})
    show_preflight(check(config), as_json)
