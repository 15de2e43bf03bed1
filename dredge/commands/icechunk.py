"""`dredge icechunk`: plan and apply expirations of Icechunk repositories, and collect what is left over."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dredge.approve.settings import ALWAYS, MARK_AGE_HOURS, NEVER, OVER_LIMITS
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
from dredge.commands.options import FiniteRange
from dredge.commands.terminal import show_progress
from dredge.runs.versions import KEEP_DAYS_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from dredge.icechunk.expiration.plan import ExpirationPlan

RULES = ["document", "spec_v1", "spec_v2"]


@click.group("icechunk", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Expire and collect Icechunk repositories.

    URI is the repository: s3://bucket/prefix, gs://bucket/prefix, file:///folder or an absolute path. Stores
    are reached by the usual AWS_… variables. Nothing is changed or deleted without --apply.
    """


for subcommand in (
    all_command,
    runs_command,
    report_command,
    approve_command,
    reject_command,
    resume_command,
    restore_command,
    purge_command,
    pins_command,
    lost_command,
    forget_lost_command,
    acknowledge_command,
):
    command.add_command(subcommand)


def _expiration_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="The plan as one JSON object."),
        click.option(
            "--all", "whole", is_flag=True, help="Draw every snapshot instead of folding long runs."
        ),
        click.option(
            "--delete-expired-tags", is_flag=True, help="Also delete tags whose tip is expired, for ever."
        ),
        click.option(
            "--delete-expired-branches", is_flag=True, help="Also delete such branches; never main."
        ),
        click.option("--rule", type=click.Choice(RULES), help="Default: what the library does for the spec."),
        click.option(
            "--older-than",
            required=True,
            metavar="WHEN",
            help="30d, 12h, 1w2d, 2026-01-31 or 2026-01-31T12:00:00Z.",
        ),
        click.argument("uri", metavar="URI"),
    ):
        function = decorate(function)
    return function


@command.command("plan")
@_expiration_options
@click.option(
    "--estimate", is_flag=True, help="Also say what a collection would free; reads every live manifest."
)
@click.option("--svg", type=click.Path(dir_okay=False, writable=True), help="Write the picture to this file.")
def plan(uri: str, estimate: bool, svg: str | None, as_json: bool, whole: bool, **asked: Any) -> None:
    """Show what an expiration would do. Changes nothing.

    \b
    Examples:
      dredge icechunk plan s3://bucket/weather --older-than 30d

    \b
    Exit codes: 0 planned (also when there is nothing to do) · 2 bad input · 3 the history cannot be expired
    by time
                4 the store is not available · 5 a file cannot be trusted · 6 no repository
    """
    made = _plan(uri, estimate=estimate, **asked)
    if svg is not None:
        from dredge.icechunk.expiration.picture import draw_picture

        with open(svg, "w", encoding="utf-8") as file:
            file.write(draw_picture(made))
    if as_json:
        click.echo(made.dumps())
        return
    _show_plan(made, whole)


@command.command("expire")
@_expiration_options
@click.option("--apply", is_flag=True, help="Do it; without, the plan is only shown.")
@click.option("--approved", metavar="DIGEST", help="Apply the plan with this digest and no other.")
def expire(uri: str, apply: bool, approved: str | None, as_json: bool, whole: bool, **asked: Any) -> None:
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
        made = _plan(uri, **asked)
        if as_json:
            click.echo(made.dumps())
            return
        _show_plan(made, whole)
        click.echo(
            "Nothing was changed. Add --apply to do it, and --approved with the digest to do just this."
        )
        return
    from dredge.icechunk.expiration.apply import expire as run

    done = run(
        uri,
        _threshold(asked["older_than"]),
        rule=asked["rule"],
        delete_expired_branches=asked["delete_expired_branches"],
        delete_expired_tags=asked["delete_expired_tags"],
        approved_digest=approved,
    )
    if as_json:
        applied = {"edited": list(done.edited), "refs_deleted": [ref.label for ref in done.refs_deleted]}
        click.echo(
            json.dumps({"plan": done.plan.as_json(), "applied": {**applied, "attempts": done.attempts}})
        )
        return
    _show_plan(done.plan, whole)
    click.secho(
        f"Expired: {len(done.edited):,} snapshots edited, {len(done.refs_deleted):,} refs deleted.", bold=True
    )


@command.command("collect")
@click.argument("uri", metavar="URI")
@click.option("--apply", is_flag=True, help="Delete; without, the run only says what would go.")
@click.option(
    "--mode",
    type=click.Choice(["distributed", "library"]),
    default="distributed",
    show_default=True,
    help="Dredge's own mark and sweep with a ledger, or the library's collection.",
)
@click.option(
    "--reads",
    type=click.Choice(["auto", "optimized", "clean"]),
    default="auto",
    show_default=True,
    help="clean lists every chunk, optimized only looks at what changed since the last complete run that deleted.",
)
@click.option(
    "--clean-every-days",
    type=FiniteRange(min=0),
    default=30.0,
    show_default=True,
    help="auto: days between clean runs.",
)
@click.option(
    "--min-age",
    default="7d",
    show_default=True,
    help="Younger objects stay: longer than any writing session.",
)
@click.option("--unsafe-min-age", is_flag=True, help="Allow --min-age below 24h: only where nobody writes.")
@click.option(
    "--grace", default="24h", show_default=True, help="Spec 1: how long released snapshots stay usable."
)
@click.option(
    "--keep-lost-days",
    type=FiniteRange(min=0),
    default=30.0,
    show_default=True,
    help="How long snapshots stay that no expiration released and no ref reaches.",
)
@click.option(
    "--keep-old-refs/--drop-old-refs",
    default=True,
    show_default=True,
    help="Spec 2: whether what refs of spec 1 reach stays that an upgrade left.",
)
@click.option(
    "--overwritten", metavar="AGE", help="Also delete copies of the repo info older than this (spec 2)."
)
@click.option(
    "--keep-chunks", is_flag=True, help="Delete no chunk: where live ones are missing, which stops a run."
)
@click.option("--keep-transactions", is_flag=True, help="Delete no transaction log; likewise.")
@click.option(
    "--inventory",
    metavar="URI",
    help="Of S3 Inventory or tables, which clean runs read instead of listing chunks.",
)
@click.option(
    "--undo",
    type=click.Choice(["auto", "off", "versions", "quarantine"]),
    default="auto",
    show_default=True,
    help="How deletions can be taken back: by versions of the bucket, or by copies that are made first.",
)
@click.option(
    "--keep-runs-days",
    type=FiniteRange(min=KEEP_DAYS_MIN),
    default=90.0,
    show_default=True,
    help="Older run folders are removed at the end of a complete run.",
)
@click.option("--max-objects", type=int, help="Await approval when more objects than this would go.")
@click.option("--max-bytes", type=int, help="Await approval when more bytes than this would go.")
@click.option(
    "--max-percent",
    type=FiniteRange(0, 100),
    help="Await approval when a larger share of the objects would go.",
)
@click.option(
    "--approval",
    type=click.Choice([OVER_LIMITS, ALWAYS, NEVER]),
    default=OVER_LIMITS,
    show_default=True,
    help="Who is asked: a person when a limit is exceeded, always, or nobody; then a limit stops the run.",
)
@click.option(
    "--approval-hours",
    type=FiniteRange(min=0, min_open=True, max=MARK_AGE_HOURS),
    default=MARK_AGE_HOURS,
    show_default=True,
    help="No answer by then is a no.",
)
@click.option(
    "--run-root", metavar="URI", help="Folder for run folders; default: _dredge/runs in the repository."
)
@click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
def collect(
    uri: str, apply: bool, mode: str, processes: int, quiet: bool, as_json: bool, **asked: Any
) -> None:
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
    from dredge.icechunk.collection.config import CollectConfig

    show_progress(quiet)
    age = _seconds(asked["min_age"])
    config = CollectConfig(
        uri=uri,
        mode=asked["reads"],
        clean_every_days=asked["clean_every_days"],
        dry_run=not apply,
        min_age_hours=age / 3600,
        unsafe_min_age_seconds=age if asked["unsafe_min_age"] else None,
        grace_hours=_seconds(asked["grace"]) / 3600,
        keep_lost_days=asked["keep_lost_days"],
        keep_old_refs=asked["keep_old_refs"],
        overwritten_min_age_hours=None
        if asked["overwritten"] is None
        else _seconds(asked["overwritten"]) / 3600,
        keep_chunks=asked["keep_chunks"],
        keep_transactions=asked["keep_transactions"],
        inventory=asked["inventory"],
        undo=asked["undo"],
        keep_runs_days=asked["keep_runs_days"],
        max_delete_objects=asked["max_objects"],
        max_delete_bytes=asked["max_bytes"],
        max_delete_percent=asked["max_percent"],
        approval=asked["approval"],
        approval_hours=asked["approval_hours"],
        run_root=asked["run_root"],
    )
    if mode == "library":
        from dredge.icechunk.collection.by_library import collect_by_library

        found = collect_by_library(config)
        click.echo(json.dumps(found) if as_json else _library_text(found))
        return
    from dredge.icechunk.collection.steps import Run, plan_collection

    end_run(Run.open(plan_collection(config).run_uri), processes, as_json)


def _plan(uri: str, *, estimate: bool = False, **asked: Any) -> ExpirationPlan:
    from dredge.icechunk.expiration.plan import plan_expiration
    from dredge.icechunk.repository import read_history
    from dredge.storage import open_reader

    threshold = _threshold(asked["older_than"])
    reader = open_reader(uri)
    made = plan_expiration(
        read_history(reader),
        threshold,
        rule=asked["rule"],
        delete_expired_branches=asked["delete_expired_branches"],
        delete_expired_tags=asked["delete_expired_tags"],
    )
    if estimate:
        from dredge.icechunk.collection.estimate import estimate as count

        made = made.with_freed(count(reader, made))
    return made


def _threshold(text: str) -> datetime:
    from dredge.icechunk.threshold import parse_older_than

    return parse_older_than(text, datetime.now(UTC))


def _seconds(text: str) -> float:
    from dredge.icechunk.threshold import parse_duration

    return parse_duration(text).total_seconds()


def _show_plan(made: ExpirationPlan, whole: bool) -> None:
    from dredge.icechunk.expiration.tree import draw_plan
    from dredge.runs.words import size_text

    click.echo(draw_plan(made, fold_above=sys.maxsize if whole else 5))
    for change in made.refs:
        lengths = f"{change.snapshots_before:,} → {change.snapshots_after:,} snapshots"
        click.echo(f"{change.ref.label:<24} {change.action:<12} {lengths:<24} {change.reason}")
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
    click.echo(f"digest {made.digest}")


def _library_text(found: dict[str, Any]) -> str:
    figures = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in found["counts"].items())
    return f"Icechunk's collection, {found['outcome'].replace('_', ' ')}: {figures}"
