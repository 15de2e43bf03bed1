"""`dredge gc restore`, `purge` and `pins`: take deletions back, make them final, and look at what is kept since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.options import setting_options
from dredge.commands.terminal import show_progress
from dredge.gc.purge.config import PurgeConfig
from dredge.gc.restore.config import RestoreConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dredge.runs.summary import StepSummary

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)


@click.command("restore")
@click.argument("run", metavar="RUN")
@click.option("--repository", metavar="NAME", help="Whose RUN is, when it is an id.")
@click.option("--all", "everything", is_flag=True, help="All that the run deleted.")
@setting_options(RestoreConfig, without=("repository", "run", "all"))
@_PROCESSES
@_JSON
def restore_command(
    run: str, repository: str | None, everything: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Bring back what a run deleted: the same bytes under the same key. What is there is never replaced.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it, or its id. What comes back is kept from the next
    runs for --keep-days. What has no way back (the run's `undo` was off, or it was purged) is counted and named. Can be
    done again: what is there already is only looked at.

    \b
    Examples:
      dredge gc restore s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --all

    \b
    Exit codes: 0 done · 2 bad input, no such run, or nothing that fits · 3 another run is at work
                4 the server or the store is not available, or some objects did not come back: restore again
                5 a file cannot be trusted · 6 no such repository
    """
    from dredge.errors import ConfigError
    from dredge.gc.restore.step import restore
    from dredge.gc.run import read_plan
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.restore.output import OUTCOMES

    if repository is None:
        if "://" not in run:
            raise ConfigError("RUN is an id, so say whose: --repository NAME. Nothing was restored.")
        repository = read_plan(run).repository
    given = {name: value for name, value in settings.items() if value is not None}
    config = RestoreConfig.from_params({**given, "repository": repository, "run": run, "all": everything})
    _log()
    with LocalRunner(processes) as runner:
        _show(restore(config, runner), OUTCOMES, as_json)


@click.command("purge")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete; without, it only says what would go.")
@setting_options(PurgeConfig, without=("repository", "dry_run"))
@_PROCESSES
@_JSON
def purge_command(repository: str, apply: bool, processes: int, as_json: bool, **settings: Any) -> None:
    """Delete for good what runs could still bring back: old copies and old versions. Only says so without --apply.

    Only what the ledgers of runs name goes, and only exactly that: copies below their folders, and versions right below
    their delete markers. A version that is the current one stays, and so does what was brought back and is pinned.

    \b
    Examples:
      dredge gc purge my-repo

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no such run · 3 another run is at work
                4 the server or the store is not available, or something could not be deleted: purge again
                5 a file cannot be trusted: nothing was deleted · 6 no such repository
    """
    from dredge.gc.purge.step import purge
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.purge.output import OUTCOMES

    given = {name: value for name, value in settings.items() if value is not None}
    config = PurgeConfig.from_params({**given, "repository": repository, "dry_run": not apply})
    _log()
    with LocalRunner(processes) as runner:
        _show(purge(config, runner), OUTCOMES, as_json)


@click.command("pins")
@click.argument("repository")
@click.option("--end", metavar="PIN", help="End this pin now: the next runs may delete what it holds.")
@_JSON
def pins_command(repository: str, end: str | None, as_json: bool) -> None:
    """List what was brought back and is kept from the next runs, until when and why.

    \b
    Examples:
      dredge gc pins my-repo

    \b
    Exit codes: 0 listed, or ended · 2 no such pin · 4 the server or the store is not available
                5 a pin cannot be read · 6 no such repository
    """
    from dredge.gc.run import open_state
    from dredge.lakefs import LakeFSClient
    from dredge.storage import store_clock
    from dredge.undo.pins import active_pins, end_pin

    state = open_state(LakeFSClient.from_env().repository(repository).namespace)
    now = store_clock(state, "")
    if end is not None:
        end_pin(state, end, now)
    found = active_pins(state, now)
    if as_json:
        click.echo(json.dumps({"repository": repository, "pins": [pin.to_json() for pin in found]}))
        return
    for pin in found:
        click.echo(f"{pin.pin_id}  {pin.text}")
    if not found:
        click.echo(f"nothing of {repository} is pinned")


def _log() -> None:
    show_progress(quiet=False)


def _show(summary: StepSummary, outcomes: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"run_id": summary.run_id, "status": summary.status, **summary.counts}))
        return
    for outcome, words in outcomes.items():
        if objects := summary.counts[f"{outcome}_objects"]:
            click.echo(f"{objects:>12,}  {words}")
    if not any(summary.counts[f"{outcome}_objects"] for outcome in outcomes):
        click.echo("nothing is left to do")
    if pin := summary.details.get("pin"):
        click.echo(f"pinned: {pin}")
    for warning in summary.warnings:
        click.secho(f"* {warning}", fg="yellow")
