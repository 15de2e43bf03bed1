"""`dredge gc acknowledge`: read the alarms of a repository, and end them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter
    from dredge.undo.alarms import Alarm


@click.command("acknowledge")
@click.argument("repository")
@click.option(
    "--reason", metavar="TEXT", help="Why deleting may go on; kept with the state. Without: list alarms."
)
@click.option("--by", metavar="NAME", help="Your name.  [default: the login name]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def acknowledge_command(repository: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """End the alarms of a repository: live objects that an earlier run had deleted. Until then nothing is deleted.

    Without --reason it lists alarms: number of objects, the run that deleted them, and restored objects. An
    acknowledged object raises no second alarm, unless another run deletes it.

    \b
    Examples:
      dredge gc acknowledge my-repo
      dredge gc acknowledge my-repo --reason "the clone on the same bucket is stopped, all objects are back"

    \b
    Exit codes: 0 acknowledged, or no alarm is open · 2 bad input · 4 the server or the store is not available
                5 an alarm cannot be read · 6 no such repository · 10 an alarm is open
    """
    from dredge.runs.consents import record_consent
    from dredge.undo.alarms import Acknowledged, acknowledge, open_alarms

    state = state_of(repository)
    found = open_alarms(state)
    if reason is not None and found:
        what = {"alarms": [alarm.alarm_id for alarm in found]}
        said = record_consent(state, "acknowledge", repository, reason, what, by)
        found = acknowledge(state, Acknowledged(who=said.who, at=said.at, why=said.why))
    show_alarms(found, reason is not None, as_json)
    if reason is None and found:
        raise SystemExit(10)


def state_of(repository: str) -> ObjectWriter:
    """Open the state of a repository."""
    from dredge.gc.run import open_state
    from dredge.lakefs import LakeFSClient

    return open_state(LakeFSClient.from_env().repository(repository).namespace)


def show_alarms(found: list[Alarm], ended: bool, as_json: bool) -> None:
    """Print alarms.

    Args:
        found: the alarms.
        ended: whether they were acknowledged now.
        as_json: as one JSON object.
    """
    if as_json:
        click.echo(json.dumps({"acknowledged": ended, "alarms": [to_json(alarm) for alarm in found]}))
        return
    if not found:
        click.echo("no alarm is open")
    for alarm in found:
        click.echo(
            f"{'acknowledged' if ended else 'open'}: {alarm.alarm_id} of {alarm.at:%Y-%m-%d %H:%M} UTC: {alarm.text}"
        )
