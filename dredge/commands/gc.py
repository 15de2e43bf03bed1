"""`dredge gc`: collect repositories, read runs and reports, and maintain the committed index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import FiniteRange, printing
from dredge.commands.collectors import Collector, add_commands
from dredge.commands.gc_analysis import cost_command, kv_access, metadata_command, plan_command, why_command
from dredge.errors import ConfigError, PartialError
from dredge.gc import steps
from dredge.gc.config import KEEP_UNNAMED_DAYS, GCConfig, PurgeConfig, RestoreConfig
from dredge.gc.many import ManyConfig, choose_repositories
from dredge.gc.run import RUNS, open_state, read_plan
from dredge.lakefs import LakeFSClient
from dredge.lakefs.writing import LakeFSWriter
from dredge.runs.payload import to_json
from dredge.runs.report import collect_each
from dredge.runs.tasks import LocalRunner, TaskRunner

if TYPE_CHECKING:
    from dredge.gc.run import Run
    from dredge.gc.witness.people import LostCommit, Restored
    from dredge.storage import ObjectWriter


@click.command("restore")
@click.argument("run", metavar="RUN")
@click.option("--repository", metavar="NAME", help="Repository of the run, if RUN is an id.")
@click.option("--all", "everything", is_flag=True, help="Restore all deletions of the run.")
@printing.setting_options(RestoreConfig, without=("repository", "run", "all"))
@printing.PROCESSES
@printing.JSON
def restore_command(
    run: str, repository: str | None, everything: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Restore deleted objects of a run: the same bytes under the same key. Existing objects are not replaced.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it, or its id. Restored objects are pinned
    for --keep-days. Objects without copy and version (`undo` was off, or they were purged) are counted and listed. A
    restore can be repeated.

    \b
    Examples:
      dredge gc restore s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --all

    \b
    Exit codes: 0 done · 2 bad input, no such run, or no matching object · 3 another run is in progress
                4 the server or the store is not available, or some objects were not restored: restore again
                5 a file cannot be trusted · 6 no such repository
    """
    from dredge.undo.putting_back import OUTCOMES

    if repository is None:
        if "://" not in run:
            raise ConfigError("RUN is an id: add --repository NAME. Nothing was restored.")
        repository = read_plan(run).repository
    config = RestoreConfig.from_params(
        {**printing.given(settings), "repository": repository, "run": run, "all": everything}
    )
    printing.show_progress(quiet=False)
    with LocalRunner(processes) as runner:
        printing.show_outcomes(steps.restore(config, runner), OUTCOMES, as_json)


@click.command("own")
@click.argument("repository")
@click.option("--alias", is_flag=True, help="Note the connection's URL as another URL of the owner's server.")
@click.option(
    "--without-id", is_flag=True, help="Consent to deletions without the right fs:UpdateRepository."
)
@printing.REASON
@printing.BY
@printing.JSON
def own_command(
    repository: str, alias: bool, without_id: bool, reason: str, by: str | None, as_json: bool
) -> None:
    """Make the server of the lakeFS connection the owner of REPOSITORY's namespace.

    Only the owner's runs delete and purge there. The first complete run of a namespace makes its server the owner; this
    command is for a moved or new server. With --alias the owner stays, and the connection's URL is
    noted as another URL of the same server. With --without-id a person consents to deletions although lakeFS does not
    keep the id of the last mark, the evidence against a copy or an older state of its database.

    \b
    Examples:
      dredge gc own my-repo --reason "moved to the new cluster on Monday"
      dredge gc own my-repo --alias --reason "the load balancer's name"

    \b
    Exit codes: 0 done · 2 bad input · 3 not the owner's server, or a run is in progress
                4 the server or the store is not available · 6 no such repository
    """
    from dredge.gc.witness import people

    if alias and without_id:
        raise ConfigError(
            "--alias and --without-id exclude each other: run the command once for each. Nothing was changed."
        )
    if alias:
        done, text = people.add_alias(repository, reason, by), "another URL was noted"
    elif without_id:
        done, text = people.consent_without_id(repository, reason, by), "deletions without an id are allowed"
    else:
        done, text = people.take_over(repository, reason, by), "the owner was set"
    _show(done, text, as_json)
    if not done["has_id"] and not without_id and not as_json:
        click.secho("* lakeFS keeps no id: grant fs:UpdateRepository, or give also --without-id", fg="yellow")


@click.command("lift-block")
@click.argument("repository")
@printing.REASON
@printing.BY
@printing.JSON
def lift_block_command(repository: str, reason: str, by: str | None, as_json: bool) -> None:
    """Lift the block of REPOSITORY's namespace: runs of the owner delete there again.

    A run with another server, or with an older database, sets the block; its message lists the likely causes. Lift it
    only when you know the cause, and with the connection of the right server: the next run accepts the present state of
    that server as the right one.

    \b
    Examples:
      dredge gc lift-block my-repo --reason "the rehearsal ran with production's URL; its DAGs are paused"

    \b
    Exit codes: 0 lifted · 2 bad input, or no block · 3 not the owner's server, or a run is in progress
                4 the server or the store is not available · 6 no such repository
    """
    from dredge.gc.witness.people import lift_block

    done = lift_block(repository, reason, by)
    _show(done, f"the block of run {done['block']['run_id']} ({done['block']['kind']}) was lifted", as_json)


def _show(done: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(done))
        return
    owner = done["owner"]
    click.echo(f"{done['repository']}: {text}")
    if owner is not None:
        urls = ", ".join([owner["environment"]["url"], *owner["aliases"]])
        click.echo(f"owner: {urls}, since {owner['since']}")


_DAYS = click.option(
    "--keep-unnamed-days",
    type=FiniteRange(min=0),
    default=KEEP_UNNAMED_DAYS,
    show_default=True,
    help="Days that a metarange without a known commit counts as active, as in the runs.",
)


@click.command("lost")
@click.argument("repository")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--apply", is_flag=True, help="Register the named commits again (default: only list).")
@_DAYS
@printing.JSON
def lost_command(
    repository: str, names: Sequence[str], apply: bool, keep_unnamed_days: float, as_json: bool
) -> None:
    """List commits lost by lakeFS, such as after a restore of its database, and register them again.

    The list has active commits of the last complete run without a record in lakeFS, and metaranges in the bucket
    without a known commit. Such a metarange is of a new commit, of a commit waiting in a hook, or of a deleted branch;
    with DREDGE_KV_URL (lakeFS's key-value store), those of deleted branches are left out.

    With --apply each NAME of the list becomes the head of a branch dredge-lost-…, with its lost ancestors: a commit
    keeps its id if Dredge recorded its fields; a metarange gets a new commit. The user of the connection needs
    fs:CreateCommit and fs:CreateBranch. Server and store are found as by `dredge gc run`.

    \b
    Examples:
      dredge gc lost my-repo
      dredge gc lost my-repo 1d8e… 77ab… --apply

    \b
    Exit codes: 0 listed, or registered · 2 bad input, or a missing right
                3 the history cannot be read, or the content of a commit is not in the bucket
                4 the server or the store is not available · 5 the record of the last run cannot be trusted
                6 no such repository · 7 another branch has the name
    """
    from dredge.gc.witness.people import LostCommits

    if apply != bool(names):
        raise ConfigError(
            "Name the commits to register, and add --apply. Nothing was changed. Without both, the command lists lost"
            " commits."
        )
    client = LakeFSWriter.from_env()
    found = LostCommits.find(client, repository, keep_unnamed_days, kv_access())
    if not apply:
        _show_lost(found.found, repository, as_json)
        return
    for restored in found.restore(client, names):
        _show_restored(restored, as_json)


@click.command("forget-lost")
@click.argument("repository")
@click.option("--reason", required=True, help="Why the older database is the right one; kept with the state.")
@_DAYS
@printing.JSON
def forget_lost_command(repository: str, reason: str, keep_unnamed_days: float, as_json: bool) -> None:
    """Give up all lost commits: the older state of the database is right.

    The commits of `dredge gc lost` become garbage, and runs accept their absence; later losses are refused again. The
    statement is kept with the state of the repository. It needs the connection of the namespace's owner, and no run
    may be in progress. The block of a refused run remains until `dredge gc lift-block` ends it.

    \b
    Examples:
      dredge gc forget-lost my-repo --reason "restored on purpose to Monday, ticket 123"

    \b
    Exit codes: 0 recorded · 2 bad input · 3 the history cannot be read, a run is in progress, or the server is not
                the owner · 4 the server or the store is not available · 6 no such repository
    """
    from dredge.gc.witness.people import forget_lost

    consent, found = forget_lost(LakeFSClient.from_env(), repository, reason, keep_unnamed_days, kv_access())
    if as_json:
        click.echo(json.dumps({"at": consent.at.isoformat(), "lost": [to_json(item) for item in found]}))
        return
    _show_lost(found, repository, as_json=False)
    click.echo(
        f"{consent.who} gave up {len(found):,} commits at {consent.at:%Y-%m-%d %H:%M} UTC: {consent.why}"
    )


def _show_lost(found: Sequence[LostCommit], repository: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([to_json(item) for item in found]))
        return
    if not found:
        click.echo(
            f"{repository}: lakeFS has every commit of the last complete run, and every metarange has a commit"
        )
        return
    click.echo(f"{'NAME':64}  {'KIND':7}  {'WRITTEN (UTC)':16}  {'OBJECTS':>12}  WHAT")
    for item in found:
        written = "not there" if item.written_at is None else f"{item.written_at:%Y-%m-%d %H:%M}"
        objects = "?" if item.objects is None else f"{item.objects:,}"
        click.echo(f"{item.name:64}  {item.kind:7}  {written:16}  {objects:>12}  {_describe(item)}")


def _describe(item: LostCommit) -> str:
    words = [f"head of {', '.join(item.branches)}"] if item.branches else []
    text = None if item.commit is None else item.commit.text
    if text is not None:
        words.append(f"{text.message!r} by {text.committer}")
    return "; ".join(words)


def _show_restored(item: Restored, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {"name": item.name, "how": item.how, "commit_id": item.commit_id, "branch": item.branch}
            )
        )
        return
    commit = "" if item.commit_id == item.name else f" as commit {item.commit_id}"
    click.echo(f"{item.name} was registered again{commit}: the head of branch {item.branch}")


@click.group("gc", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Collect a repository, approve candidates, restore deletions, read runs and reports, and maintain the index.
    Nothing is deleted without `--apply`."""


def open_repository_state(repository: str) -> ObjectWriter:
    """Open the state folder of a repository."""
    return open_state(LakeFSClient.from_env().repository(repository).namespace)


def _read_report(uri: str) -> dict[str, Any]:
    from dredge.gc.save_report.step import read_report

    return read_report(uri)


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
    to_its_end=_to_its_end,
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
    printing.show_progress(quiet)
    with steps.planned(config) as planned:
        COLLECTOR.finish(planned, processes, as_json)


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
    printing.log_lines(quiet)
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
    return printing.save_and_show_summary(outcomes, chosen.left_out, chosen.summary_root, "gc-all", as_json)
