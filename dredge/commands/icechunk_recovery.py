"""`dredge icechunk restore`, `lost` and `forget-lost`."""

from __future__ import annotations

import json
from typing import Any

import click

from dredge.commands.printing import BY, JSON, PROCESSES, given, setting_options, show_outcomes, show_progress
from dredge.icechunk.collection.config import IcechunkRestoreConfig
from dredge.runs.tasks import LocalRunner


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
