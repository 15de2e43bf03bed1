"""`dredge icechunk restore`, `purge` and `pins`: restore deletions, make them final, and list pins."""

from __future__ import annotations

import json
from typing import Any

import click

from dredge.commands.options import setting_options
from dredge.commands.terminal import show_progress
from dredge.commands.undo_answers import show_outcomes, show_pins
from dredge.icechunk.collection.config import IcechunkPurgeConfig, IcechunkRestoreConfig

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)


@click.command("restore")
@click.argument("uri", metavar="URI")
@click.argument("run", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="All that the run deleted.")
@click.option(
    "--expiration", is_flag=True, help="RUN is an expiration of spec 2: restore the history before it."
)
@setting_options(IcechunkRestoreConfig, without=("storage", "run", "all", "expiration"))
@_PROCESSES
@_JSON
def restore_command(
    uri: str, run: str, everything: bool, expiration: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Restore objects that a collection deleted: the same bytes under the same key. Existing objects are not replaced.
    With --expiration: put the repo info from before an expiration back, byte for byte, and with it the released
    snapshots and deleted refs.

    RUN is the id of the run, or the URI of its folder, as its report says. Restored objects are pinned for
    --keep-days. Objects without copy and version (`undo` was off, or they were purged) are counted and listed. A
    restore can be repeated.

    \b
    Examples:
      dredge icechunk restore s3://bucket/weather RUN --all
      dredge icechunk restore s3://bucket/weather RUN --expiration

    \b
    Exit codes: 0 done · 2 bad input, no such run, or no matching object · 3 another run is in progress
                4 the store is not available, or some objects were not restored: restore again
                5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.collection.undo import restore
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.putting_back import OUTCOMES

    given = {name: value for name, value in settings.items() if value is not None}
    config = IcechunkRestoreConfig.from_params(
        {**given, "storage": uri, "run": run, "all": everything, "expiration": expiration}
    )
    show_progress(quiet=False)
    if expiration:
        _restore_expiration(uri, run, as_json)
        return
    with LocalRunner(processes) as runner:
        show_outcomes(restore(config, runner), OUTCOMES, as_json)


def _restore_expiration(uri: str, expiration_id: str, as_json: bool) -> None:
    from dredge.icechunk.expiration.restore import restore_expiration

    done = restore_expiration(uri, expiration_id)
    if as_json:
        click.echo(json.dumps({"restored_snapshots": done.snapshots, "restored_refs": list(done.refs)}))
        return
    refs = f", refs {', '.join(done.refs)}" if done.refs else ""
    click.echo(f"{done.snapshots:,} snapshots are in the history again{refs}")


@click.command("purge")
@click.argument("uri", metavar="URI")
@click.option("--apply", is_flag=True, help="Delete (default: only list).")
@setting_options(IcechunkPurgeConfig, without=("storage", "dry_run"))
@_PROCESSES
@_JSON
def purge_command(uri: str, apply: bool, processes: int, as_json: bool, **settings: Any) -> None:
    """Permanently delete old copies and versions of deleted objects. Only lists them without --apply.

    Only copies and versions in the ledgers of runs are deleted: copies below the run folders, and versions right below
    the delete markers. Current versions and pinned objects stay.

    \b
    Examples:
      dredge icechunk purge s3://bucket/weather

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no such run · 3 another run is in progress
                4 the store is not available, or something could not be deleted: purge again
                5 a file cannot be trusted: nothing was deleted · 6 no repository
    """
    from dredge.icechunk.collection.undo import purge
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.leftovers import OUTCOMES

    given = {name: value for name, value in settings.items() if value is not None}
    config = IcechunkPurgeConfig.from_params({**given, "storage": uri, "dry_run": not apply})
    show_progress(quiet=False)
    with LocalRunner(processes) as runner:
        show_outcomes(purge(config, runner), OUTCOMES, as_json)


@click.command("pins")
@click.argument("uri", metavar="URI")
@click.option("--end", metavar="PIN", help="End this pin now: the next runs may delete its objects.")
@_JSON
def pins_command(uri: str, end: str | None, as_json: bool) -> None:
    """List restored objects that the next collections keep, with end and reason.

    \b
    Examples:
      dredge icechunk pins s3://bucket/weather

    \b
    Exit codes: 0 listed, or ended · 2 no such pin · 4 the store is not available · 5 a pin cannot be read
                6 no repository
    """
    from dredge.icechunk.collection.undo import collected_of

    show_pins(collected_of(uri).state, uri, end, as_json)
