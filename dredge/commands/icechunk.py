"""`dredge icechunk`: plan and apply expirations of Icechunk repositories, and collect what is left over."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.checks import icechunk_check_command
from dredge.commands.icechunk_insight import cost_command, why_command
from dredge.commands.icechunk_many import all_command
from dredge.commands.icechunk_past import acknowledge_command, forget_lost_command, lost_command
from dredge.commands.icechunk_runs import (
    approve_command,
    end_run,
    reject_command,
    report_command,
    resume_command,
    runs_command,
)
from dredge.commands.icechunk_undo import pins_command, purge_command, restore_command
from dredge.commands.options import FiniteRange, setting_options
from dredge.commands.terminal import show_progress
from dredge.commands.variables import forget_variable_command
from dredge.icechunk.collection.config import MIN_AGE_DEFAULT, CollectConfig
from dredge.icechunk.expiration.config import Expiration, ExpireConfig

REFS_SHOWN = 10

if TYPE_CHECKING:
    from collections.abc import Callable

    from dredge.icechunk.expiration.plan import ExpirationPlan
    from dredge.storage import ObjectWriter


def _state_of(uri: str) -> ObjectWriter:
    from dredge.icechunk.maintenance import open_state

    return open_state(uri)


@click.group("icechunk", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Expire and collect Icechunk repositories.

    URI is the repository: s3://bucket/prefix, gs://bucket/prefix, file:///folder or an absolute path. Stores
    are reached by the usual AWS_… variables. Nothing is changed or deleted without --apply.
    """


for subcommand in (
    icechunk_check_command,
    all_command,
    runs_command,
    report_command,
    approve_command,
    reject_command,
    resume_command,
    why_command,
    cost_command,
    restore_command,
    purge_command,
    pins_command,
    lost_command,
    forget_lost_command,
    acknowledge_command,
    forget_variable_command("icechunk", "URI", "s3://lake/weather", _state_of),
):
    command.add_command(subcommand)


def _expiration_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="The plan as one JSON object."),
        click.option("--all", "whole", is_flag=True, help="Show all refs and snapshots."),
        setting_options(ExpireConfig, without=("estimate",)),
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
    """Show what an expiration would do. Changes nothing.

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
    Exit codes: 0 done, or shown · 2 bad input, or a rule that cannot be applied to the spec
                3 refused: the history or the repository changed, or the outcome differs from the plan
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
            "Nothing was changed. Add --apply to do it, and --approved with the digest to do just this."
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
@setting_options(CollectConfig, without=("storage", "dry_run", "approvers"))
@click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
def collect(uri: str, apply: bool, processes: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Delete the snapshots, manifests, chunks and transaction logs that nothing reaches.

    \b
    Examples:
      dredge icechunk collect s3://bucket/weather --json

    \b
    Exit codes: 0 done, or shown · 2 bad input · 3 refused by a guard or awaiting approval, or another run is at work
                4 the store is not available, or some objects could not be deleted: run it again
                5 a live file cannot be trusted: nothing more was deleted · 6 no repository
                9 some objects were deleted, and the key pair may not delete the rest
    """
    show_progress(quiet)
    given = {name: value for name, value in settings.items() if value is not None}
    config = CollectConfig.from_params({**given, "storage": uri, "dry_run": not apply})
    from dredge.icechunk.collection.steps import Run, plan_collection

    end_run(Run.open(plan_collection(config).run_uri), processes, as_json)


def _plan(uri: str, *, estimate: bool, min_age_hours: float, **asked: Any) -> ExpirationPlan:
    from dredge.icechunk.expiration.kept_refs import plan_for
    from dredge.icechunk.repository import read_history
    from dredge.storage import open_reader

    expiration, reader = _expiration(asked), open_reader(uri)
    now = datetime.now(UTC)
    made = plan_for(reader, read_history(reader), expiration, now)
    if estimate:
        from dredge.icechunk.collection.index import estimate as count

        made = made.with_freed(count(reader, made, timedelta(hours=min_age_hours), now))
    return made


def _expiration(asked: dict[str, Any]) -> Expiration:
    given = {name: value for name, value in asked.items() if value is not None}
    return Expiration.from_config(ExpireConfig.from_params(given), datetime.now(UTC))


def _show_plan(made: ExpirationPlan, whole: bool) -> None:
    from dredge.icechunk.expiration.drawing import draw_plan
    from dredge.runs.rendering import size_text

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
