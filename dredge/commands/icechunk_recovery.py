"""`dredge icechunk restore`, `purge`, `pins`, `lost`, `forget-lost` and `acknowledge`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.options import (
    ACKNOWLEDGE_REASON,
    BY,
    JSON,
    PROCESSES,
    given,
    setting_options,
)
from dredge.commands.printing import show_alarms, show_outcomes, show_pins, show_progress
from dredge.icechunk.collection.config import IcechunkPurgeConfig, IcechunkRestoreConfig

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter


def open_state(uri: str) -> ObjectWriter:
    """Open the state folder of a repository."""
    from dredge.icechunk import maintenance

    return maintenance.open_state(uri)


@click.command("restore")
@click.argument("uri", metavar="URI")
@click.argument("run", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="All that the run deleted.")
@click.option(
    "--expiration", is_flag=True, help="RUN is an expiration of spec 2: restore the history before it."
)
@setting_options(IcechunkRestoreConfig, without=("storage", "run", "all", "expiration"))
@PROCESSES
@JSON
def restore_command(
    uri: str, run: str, everything: bool, expiration: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Restore deleted objects of a collection: the same bytes under the same key. Existing objects are not replaced.

    RUN is the id of the run, or the URI of its folder, as its report says. Restored objects are pinned for
    --keep-days. Objects without copy and version (`undo` was off, or they were purged) are counted and listed. A
    restore can be repeated.

    With --expiration: put the repo info from before an expiration back, byte for byte, and with it the released
    snapshots and deleted refs.

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

    config = IcechunkRestoreConfig.from_params(
        {**given(settings), "storage": uri, "run": run, "all": everything, "expiration": expiration}
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
@PROCESSES
@JSON
def purge_command(uri: str, apply: bool, processes: int, as_json: bool, **settings: Any) -> None:
    """Permanently delete old copies and versions of deleted objects. Only lists them without --apply.

    Only copies and versions in the ledgers of runs are deleted: copies below the run folders, and versions right below
    the delete markers. Current versions and pinned objects stay.

    \b
    Examples:
      dredge icechunk purge s3://bucket/weather

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no such run · 3 another run is in progress
                4 the store is not available, or some deletions failed: purge again
                5 a file cannot be trusted: nothing was deleted · 6 no repository
    """
    from dredge.icechunk.collection.undo import purge
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.leftovers import OUTCOMES

    config = IcechunkPurgeConfig.from_params({**given(settings), "storage": uri, "dry_run": not apply})
    show_progress(quiet=False)
    with LocalRunner(processes) as runner:
        show_outcomes(purge(config, runner), OUTCOMES, as_json)


@click.command("pins")
@click.argument("uri", metavar="URI")
@click.option("--end", metavar="PIN", help="End this pin now: the next runs may delete its objects.")
@JSON
def pins_command(uri: str, end: str | None, as_json: bool) -> None:
    """List restored objects with a pin against the next collections, with end and reason.

    \b
    Examples:
      dredge icechunk pins s3://bucket/weather

    \b
    Exit codes: 0 listed, or ended · 2 no such pin · 4 the store is not available · 5 a pin cannot be read
                6 no repository
    """
    from dredge.icechunk.collection.undo import collected_of

    show_pins(collected_of(uri).state, uri, end, as_json)


@click.command("lost")
@click.argument("uri", metavar="URI")
@JSON
def lost_command(uri: str, as_json: bool) -> None:
    """List lost tips of refs that are kept for now, and the refusals of the next collection.

    A tip is lost when an earlier collection saw it, no ref reaches it now, and no expiration released it. Put its ref
    back with Icechunk while it is kept. Read-only.

    \b
    Examples:
      dredge icechunk lost s3://bucket/weather

    \b
    Exit codes: 0 listed · 3 main or the repo info is missing · 4 the store is not available
                5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.collection.witness.judging import ask_witnesses

    found = ask_witnesses(uri)
    refused = [refusal.message for refusal in found.refusals]
    if as_json:
        tips = {node: {"ref": tip.ref, "since": tip.since.isoformat()} for node, tip in found.lost.items()}
        click.echo(json.dumps({"lost": tips, "refused": refused}))
        return
    for node, tip in sorted(found.lost.items(), key=lambda item: item[1].since):
        click.echo(f"{node}  {tip.ref}  missed since {tip.since:%Y-%m-%d %H:%M} UTC")
    click.echo(f"{len(found.lost):,} lost tips are kept")
    for message in refused:
        click.echo(f"The next collection is refused: {message}")


@click.command("forget-lost")
@click.argument("uri", metavar="URI")
@click.option("--reason", required=True, help="Why this state is wanted; kept with the state.")
@BY
@JSON
def forget_lost_command(uri: str, reason: str, by: str | None, as_json: bool) -> None:
    """Accept the refused state of a repository: main was reset, an earlier repo info was restored, or
    commits of a program with spec 1 are not needed.

    Collections continue. Lost snapshots are still kept until --keep-lost-days of the collections are over.

    \b
    Examples:
      dredge icechunk forget-lost s3://bucket/weather --reason "reset main to before the wrong import"

    \b
    Exit codes: 0 recorded, or there is no refusal · 2 no reason · 3 main or the repo info is missing
                4 the store is not available · 5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.collection.witness.judging import forget_lost

    show_progress(quiet=False)
    accepted = forget_lost(uri, reason, by)
    if as_json:
        click.echo(json.dumps({"accepted": accepted}))
        return
    for message in accepted:
        click.echo(f"Accepted: {message}")
    if not accepted:
        click.echo("Nothing is refused, so nothing was written down.")


@click.command("acknowledge")
@click.argument("uri", metavar="URI")
@ACKNOWLEDGE_REASON
@BY
@JSON
def acknowledge_command(uri: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """End the alarms of a repository: deleted live objects. Until then no collection deletes.

    \b
    Examples:
      dredge icechunk acknowledge s3://bucket/weather
      dredge icechunk acknowledge s3://bucket/weather --reason "a script had removed refs, all objects are back"

    \b
    Exit codes: 0 acknowledged, or no alarm is open · 2 bad input · 4 the store is not available
                5 an alarm cannot be read · 6 no repository · 10 an alarm is open
    """
    from dredge.icechunk.collection.undo import acknowledge_alarms, collected_of
    from dredge.undo.alarms import open_alarms

    found = open_alarms(collected_of(uri).state) if reason is None else acknowledge_alarms(uri, reason, by)
    show_alarms(found, reason is not None, as_json)
