"""`dredge icechunk`: expire and collect Icechunk repositories, and read runs and reports."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import FiniteRange, printing
from dredge.commands.collectors import Collector, add_commands
from dredge.commands.icechunk_recovery import (
    cost_command,
    forget_lost_command,
    lost_command,
    restore_command,
    why_command,
)
from dredge.errors import ConfigError
from dredge.icechunk.collection.config import MIN_AGE_DEFAULT, CollectConfig, IcechunkPurgeConfig
from dredge.icechunk.expiration.config import Expiration, ExpireConfig
from dredge.icechunk.maintenance import RUNS
from dredge.icechunk.many import ManyConfig, choose_repositories, summary_root
from dredge.runs.report import size_text
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader

if TYPE_CHECKING:
    from dredge.icechunk.expiration.plan import ExpirationPlan
    from dredge.storage import ObjectWriter

REFS_SHOWN = 10


@click.group("icechunk", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Expire and collect Icechunk repositories.

    URI is the repository: s3://bucket/prefix, gs://bucket/prefix, file:///folder or an absolute path. Stores
    are reached by the usual AWS_… variables. All commands are dry runs without --apply.
    """


def _open_state(uri: str) -> ObjectWriter:
    from dredge.icechunk.collection.steps import collected_of

    return collected_of(uri).state  # refuses a place without a repository


def _read_report(uri: str) -> dict[str, Any]:
    from dredge.icechunk.collection.run import Run
    from dredge.icechunk.collection.save_report import build_report

    return build_report(Run.open(uri))


def _expirations(uri: str, limit: int) -> tuple[dict[str, Any], list[str]]:
    """The applied expirations of a repository, as JSON and as lines."""
    from dredge.icechunk.expiration.restore import list_applied

    rows, lines = [], []
    for found in list_applied(uri, limit):
        times = [f"{at:%Y-%m-%d %H:%M:%S}" for at in (found.at, found.expiration.instant)]
        refs = list(found.refs_deleted)
        rows.append(
            {
                "expiration_id": found.expiration_id,
                "applied_at": found.at.isoformat(),
                "older_than": found.expiration.threshold,
                "released_snapshots": found.released,
                "refs_deleted": refs,
            }
        )
        lines.append(
            f"{found.expiration_id:<22}{times[0]:<21}{times[1]:<21}{found.released:>12,}{len(refs):>14,}"
        )
    if lines:
        lines.insert(
            0,
            f"\n{'EXPIRATION':<22}{'APPLIED (UTC)':<21}{'OLDER THAN':<21}{'RELEASED':>12}{'REFS DELETED':>14}",
        )
    return {"expirations": rows}, lines


COLLECTOR = Collector(
    group="icechunk",
    metavar="URI",
    setting="storage",
    repository="s3://bucket/weather",
    run="s3://bucket/weather/_dredge/runs/RUN",
    services="the store",
    steps="dredge.icechunk.collection.steps",
    runs=RUNS,
    config=CollectConfig,
    purge_config=IcechunkPurgeConfig,
    open_state=_open_state,
    read_report=_read_report,
    more_runs=_expirations,
)
add_commands(command, COLLECTOR)
for _added in (why_command, cost_command, restore_command, lost_command, forget_lost_command):
    command.add_command(_added)


def _expiration_options(function: printing.Command) -> printing.Command:
    for decorate in (
        printing.json_option("The plan as one JSON object."),
        click.option("--all", "whole", is_flag=True, help="Show all refs and snapshots."),
        printing.setting_options(ExpireConfig, without=("estimate",)),
        click.option(
            "--estimate",
            is_flag=True,
            help="Also count what a collection would delete; reads every live manifest.",
        ),
        click.option(
            "--min-age-hours",
            type=FiniteRange(min=0),
            default=MIN_AGE_DEFAULT,
            show_default=True,
            help="Minimum age of the collection, for the estimate.",
        ),
        click.argument("uri", metavar="URI"),
    ):
        function = decorate(function)
    return function


@command.command("plan")
@_expiration_options
def plan(uri: str, as_json: bool, whole: bool, **asked: Any) -> None:
    """Show the plan of an expiration. Read-only.

    \b
    Examples:
      dredge icechunk plan s3://bucket/weather --older-than 30d

    \b
    Exit codes: 0 planned (also when there is nothing to do) · 2 bad input · 3 the history cannot be expired
    by time
                4 the store is not available · 5 a file cannot be trusted · 6 no repository
    """
    made = _plan(uri, **asked)
    if as_json:
        click.echo(made.dumps())
        return
    _show_plan(made, whole)


@command.command("expire")
@_expiration_options
@click.option("--apply", is_flag=True, help="Apply the plan (default: only show it).")
@click.option("--approved", metavar="DIGEST", help="Apply the plan with this digest and no other.")
def expire(
    uri: str,
    apply: bool,
    approved: str | None,
    estimate: bool,
    min_age_hours: float,
    as_json: bool,
    whole: bool,
    **asked: Any,
) -> None:
    """Take old snapshots out of history: in place on spec 1, through the library on spec 2.

    \b
    Examples:
      dredge icechunk expire s3://bucket/weather --older-than 30d

    \b
    Exit codes: 0 done, or shown · 2 bad input, or a rule unsupported by the spec
                3 refused: the history or the repository changed, or the result differs from the plan
                4 the store is not available · 5 a file cannot be trusted · 6 no repository
                9 done in part: the store does not allow the rest
    """
    if not apply:
        made = _plan(uri, estimate=estimate, min_age_hours=min_age_hours, **asked)
        if as_json:
            click.echo(made.dumps())
            return
        _show_plan(made, whole)
        click.echo(
            "Nothing was changed. Add --apply to expire, and --approved DIGEST to apply this plan and no other."
        )
        return
    from dredge.icechunk.expiration.apply import expire as run

    done = run(uri, _expiration(asked), approved_digest=approved)
    if as_json:
        applied = {
            "expiration_id": done.expiration_id,
            "edited": list(done.edited),
            "refs_deleted": [ref.label for ref in done.refs_deleted],
            "attempts": done.attempts,
        }
        click.echo(json.dumps({"plan": done.plan.as_json(), "applied": applied}))
        return
    _show_plan(done.plan, whole)
    click.secho(
        f"Expired: {len(done.edited):,} snapshots edited, {len(done.refs_deleted):,} refs deleted.", bold=True
    )
    if done.before is not None:
        click.echo(f"To undo it: dredge icechunk restore {uri} {done.expiration_id} --expiration")


@command.command("collect")
@click.argument("uri", metavar="URI")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry run).")
@printing.setting_options(CollectConfig, without=("storage", "dry_run", "approvers"))
@printing.PROCESSES
@printing.QUIET
@printing.json_option("The report as one JSON object.")
def collect(uri: str, apply: bool, processes: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Delete unreachable snapshots, manifests, chunks and transaction logs.

    \b
    Examples:
      dredge icechunk collect s3://bucket/weather --json

    \b
    Exit codes: 0 done, or shown · 2 bad input · 3 refused by a guard or awaiting approval, or another run in progress
                4 the store is not available, or some objects could not be deleted: run it again
                5 a live file cannot be trusted: nothing more was deleted · 6 no repository
                9 some objects were deleted, and the key pair may not delete the rest
    """
    printing.show_progress(quiet)
    config = CollectConfig.from_params({**printing.given(settings), "storage": uri, "dry_run": not apply})
    from dredge.icechunk.collection.steps import Run, plan_collection
    from dredge.runs.parts import BY_DIGEST, cache_parts

    with cache_parts(BY_DIGEST):  # planning reads the files of the run before
        made = plan_collection(config)
        COLLECTOR.finish(Run.open(made.run_uri, plan=made), processes, as_json)


def _plan(uri: str, *, estimate: bool, min_age_hours: float, **asked: Any) -> ExpirationPlan:
    from dredge.icechunk.expiration.plan import plan_for
    from dredge.icechunk.repository import read_history

    expiration, reader = _expiration(asked), open_reader(uri)
    now = datetime.now(UTC)
    made = plan_for(reader, read_history(reader), expiration, now)
    if estimate:
        from dredge.icechunk.collection.index import estimate as count

        made = made.with_freed(count(reader, made, timedelta(hours=min_age_hours), now))
    return made


def _expiration(asked: dict[str, Any]) -> Expiration:
    return Expiration.from_config(ExpireConfig.from_params(printing.given(asked)), datetime.now(UTC))


def _show_plan(made: ExpirationPlan, whole: bool) -> None:
    from dredge.icechunk.expiration.drawing import draw_plan

    click.echo(draw_plan(made, fold_above=sys.maxsize if whole else 5))
    shown = (
        made.refs if whole else sorted(made.refs, key=lambda found: found.action == "unchanged")[:REFS_SHOWN]
    )
    for change in shown:
        lengths = f"{change.snapshots_before:,} → {change.snapshots_after:,} snapshots"
        click.echo(f"{change.ref.label:<24} {change.action:<12} {lengths:<24} {change.reason}")
    if len(made.refs) > len(shown):
        click.echo(f"… and {len(made.refs) - len(shown):,} more refs (--all shows them)")
    click.echo()
    held = f" ({len(made.held):,} of them still held by refs)" if made.held else ""
    click.echo(f"rule {made.rule}, older than {made.threshold.isoformat()}")
    click.echo(
        f"{len(made.released):,} snapshots released{held}, {len(made.edits):,} edited,"
        f" {len(made.refs_deleted):,} refs deleted"
    )
    if made.frees is not None:
        free = made.frees
        click.echo(
            f"a collection would then free {size_text(free.size_bytes)}: {free.snapshots:,} snapshots,"
            f" {free.manifests:,} manifests, {free.chunks:,} chunks, {free.transaction_logs:,} logs"
        )
        if free.all_old_at is not None:
            click.echo(
                f"of these, {free.young_objects:,} objects ({size_text(free.young_bytes)}) are younger than the minimum"
                f" age; the last one reaches it at {free.all_old_at:%Y-%m-%d %H:%M} UTC"
            )
    click.echo(f"digest {made.digest}")


@command.command("all")
@click.option("--apply", is_flag=True, help="Expire and delete (default: dry runs).")
@printing.setting_options(ManyConfig)
@printing.AT_ONCE
@printing.setting_options(ExpireConfig, without=("estimate",))
@printing.setting_options(CollectConfig, without=("storage", "dry_run", "approvers"))
@printing.QUIET
@printing.json_option("The summary as one JSON object.")
def all_command(apply: bool, at_once: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Expire and collect many Icechunk repositories here, each by its own run. Dry runs without --apply.

    The settings are those of the DAG icechunk_all, and so is the page about all. A run that awaits approval needs
    a person; `dredge icechunk approve` and `resume` continue it.

    \b
    Examples:
      dredge icechunk all --storages 's3://lake/*' --older-than 30d

    \b
    Exit codes: 0 done, or shown · 2 bad input · 4 a folder of repositories cannot be listed
                9 some repositories need a person; the others are done
    """
    asked = printing.given(settings)
    many = ManyConfig.from_params(printing.take_settings(asked, ManyConfig))
    expiration = ExpireConfig.from_params(printing.take_settings(asked, ExpireConfig))

    def make_config(uri: str) -> CollectConfig:
        return CollectConfig.from_params({**asked, "storage": uri, "dry_run": not apply})

    make_config("file:///all")  # wrong settings fail before the first run
    if not many.wanted:
        raise ConfigError("storages is empty: name the repositories, such as --storages 's3://lake/*'")
    printing.log_lines(quiet)
    raise SystemExit(_collect(many, expiration, make_config, at_once, asked.get("run_root"), as_json))


def _collect(
    many: ManyConfig,
    expiration: ExpireConfig,
    make_config: Any,
    at_once: int,
    run_root: str | None,
    as_json: bool,
) -> int:
    from dredge.icechunk.collection.steps import Run, plan_collection, to_its_end
    from dredge.icechunk.expiration.apply import expire
    from dredge.runs.clock import utc_now
    from dredge.runs.report import collect_each

    planned = Expiration.from_config(expiration, utc_now())

    def plan(uri: str) -> str:
        config = make_config(uri)
        if config.dry_run:
            config = replace(config, after=planned)
        else:
            expire(uri, planned)
        return plan_collection(config).run_uri

    chosen, missing = choose_repositories(many, ())
    with LocalRunner() as runner:
        outcomes = list(collect_each(chosen, plan, lambda uri: to_its_end(Run.open(uri), runner), at_once))
    return printing.save_and_show_summary(
        outcomes, missing, summary_root(many, run_root, chosen), "icechunk-all", as_json
    )
