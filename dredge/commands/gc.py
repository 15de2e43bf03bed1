"""`dredge gc`: collect repositories, read runs and reports, and maintain the committed index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dredge.commands import printing
from dredge.commands.collectors import Collector, add_commands
from dredge.commands.gc_analysis import cost_command, metadata_command, plan_command, why_command
from dredge.commands.gc_recovery import (
    forget_lost_command,
    lift_block_command,
    lost_command,
    own_command,
    restore_command,
)
from dredge.commands.printing import log_lines, save_and_show_summary, show_progress
from dredge.errors import PartialError
from dredge.gc import steps
from dredge.gc.config import GCConfig, PurgeConfig
from dredge.gc.many import ManyConfig, choose_repositories
from dredge.gc.run import RUNS, open_state
from dredge.lakefs import LakeFSClient
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.report import collect_each
from dredge.runs.tasks import LocalRunner, TaskRunner

if TYPE_CHECKING:
    from dredge.gc.run import Run
    from dredge.storage import ObjectWriter


@click.group("gc", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Collect a repository, approve candidates, restore deletions, read runs and reports, and maintain the index.
    Nothing is deleted without `--apply`."""


def open_repository_state(repository: str) -> ObjectWriter:
    """Open the state folder of a repository."""
    return open_state(LakeFSClient.from_env().repository(repository).namespace)


def _read_report(uri: str) -> dict[str, Any]:
    from dredge.gc.save_report.report import read_report

    return read_report(uri)


def _reopen(uri: str) -> Run:
    from dredge.gc.planning import reopen_run

    return reopen_run(uri)


def _to_its_end(run: Run, runner: TaskRunner) -> None:
    steps.to_its_end(run, runner)
    found = _read_report(run.plan.run_uri)
    if found["outcome"] not in ("success", "dry_run"):
        problems = found["problems"] or ["some of the objects stayed"]
        raise PartialError(f"run {run.plan.run_id} is {found['outcome']}. {problems[0]}")


COLLECTOR = Collector(
    group="gc",
    metavar="REPOSITORY",
    setting="repository",
    repository="my-repo",
    run="s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN",
    services="the server or the store",
    steps="dredge.gc.steps",
    runs=RUNS,
    config=GCConfig,
    purge_config=PurgeConfig,
    open_state=open_repository_state,
    read_report=_read_report,
    reopen=_reopen,
    to_its_end=_to_its_end,
    check=lambda config: steps.check(config),
    purge=steps.purge,
)
add_commands(command, COLLECTOR)
for _added in (
    *(why_command, cost_command, plan_command, metadata_command),
    *(restore_command, lost_command, forget_lost_command, own_command, lift_block_command),
):
    command.add_command(_added)


@command.command("run")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry run).")
@printing.setting_options(GCConfig, without=("repository", "dry_run", "approvers"))
@printing.PROCESSES
@printing.QUIET
@printing.json_option("The whole report as one JSON object.")
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
    config = GCConfig.from_params(
        {**printing.given(settings), "repository": repository, "dry_run": not apply}
    )
    show_progress(quiet)
    with cache_parts(BY_DIGEST):  # planning reads the files of the run before
        plan = steps.plan_run(config)
        COLLECTOR.finish(steps.Run.open(plan.run_uri, plan=plan), processes, as_json)


@command.command("all")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry runs).")
@printing.setting_options(ManyConfig)
@printing.AT_ONCE
@printing.setting_options(GCConfig, without=("repository", "dry_run"))
@printing.QUIET
@printing.json_option("The summary as one JSON object.")
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
    asked = printing.given(settings)
    many = ManyConfig.from_params(printing.take_settings(asked, ManyConfig))

    def make_config(repository: str) -> GCConfig:
        return GCConfig.from_params({**asked, "repository": repository, "dry_run": not apply})

    make_config("all")  # wrong settings fail before the first run
    log_lines(quiet)
    raise SystemExit(_collect(many, make_config, at_once, asked.get("run_root"), as_json))


def _collect(many: ManyConfig, make_config: Any, at_once: int, run_root: str | None, as_json: bool) -> int:
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
