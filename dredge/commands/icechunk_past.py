"""`dredge icechunk lost`, `forget-lost` and `acknowledge`: what earlier collections saw and did."""

from __future__ import annotations

import json

import click

from dredge.commands.terminal import show_progress


@click.command("lost")
@click.argument("uri", metavar="URI")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def lost_command(uri: str, as_json: bool) -> None:
    """List the tips of refs that were lost and are kept for now, and what the next collection would refuse.

    A tip is lost when an earlier collection saw it, no ref reaches it now, and no expiration released it. Put its ref
    back with Icechunk while it is kept. Changes nothing.

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
@click.option("--by", help="Your name; default: the login name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def forget_lost_command(uri: str, reason: str, by: str | None, as_json: bool) -> None:
    """Accept the state of a repository that collections refuse: main was reset, an earlier repo info was restored, or
    commits of a program that still writes spec 1 are not needed.

    Collections continue. Lost snapshots are still kept until --keep-lost-days of the collections are over.

    \b
    Examples:
      dredge icechunk forget-lost s3://bucket/weather --reason "reset main to before the wrong import"

    \b
    Exit codes: 0 written down, or nothing is refused · 2 no reason · 3 main or the repo info is missing
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
@click.option(
    "--reason", metavar="TEXT", help="Why deleting may go on; kept with the state. Without: list alarms."
)
@click.option("--by", help="Your name; default: the login name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def acknowledge_command(uri: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """End the alarms of a repository: live objects that an earlier collection had deleted. Before, nothing is deleted.

    \b
    Examples:
      dredge icechunk acknowledge s3://bucket/weather
      dredge icechunk acknowledge s3://bucket/weather --reason "a script had removed refs, all objects are back"

    \b
    Exit codes: 0 acknowledged, or no alarm is open · 2 bad input · 4 the store is not available
                5 an alarm cannot be read · 6 no repository · 10 an alarm is open
    """
    from dredge.commands.gc_alarms import show_alarms
    from dredge.icechunk.collection.undo import acknowledge_alarms, collected_of
    from dredge.undo.alarms import open_alarms

    found = open_alarms(collected_of(uri).state) if reason is None else acknowledge_alarms(uri, reason, by)
    show_alarms(found, reason is not None, as_json)
    if reason is None and found:
        raise SystemExit(10)
