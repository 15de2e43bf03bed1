"""What restores and purges answer on a terminal, and the pins that hold what came back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.runs.summary import StepSummary
    from dredge.storage import ObjectWriter


def show_outcomes(summary: StepSummary, outcomes: Mapping[str, str], as_json: bool) -> None:
    """Print what became of objects.

    Args:
        summary: of a restore or a purge.
        outcomes: words that follow a number, by outcome.
        as_json: as one JSON object.
    """
    if as_json:
        click.echo(json.dumps({"run_id": summary.run_id, "status": summary.status, **summary.counts}))
        return
    for outcome, words in outcomes.items():
        if objects := summary.counts[f"{outcome}_objects"]:
            click.echo(f"{objects:>12,}  {words}")
    if not summary.warnings and not any(summary.counts[f"{outcome}_objects"] for outcome in outcomes):
        click.echo("nothing is left to do")
    if pin := summary.details.get("pin"):
        click.echo(f"pinned: {pin}")
    for warning in summary.warnings:
        click.secho(f"* {warning}", fg="yellow")


def show_pins(state: ObjectWriter, repository: str, end: str | None, as_json: bool) -> None:
    """End a pin when that is asked for, then print those in force.

    Args:
        state: on the folder of lease and pins.
        repository: what people call it.
        end: id of a pin; None ends none.
        as_json: as one JSON object.

    Raises:
        ConfigError: there is no such pin.
        FormatError: one cannot be read.
    """
    from dredge.storage import store_clock
    from dredge.undo.pins import active_pins, end_pin

    now = store_clock(state, "")
    if end is not None:
        end_pin(state, end, now)
    found = active_pins(state, now)
    if as_json:
        click.echo(json.dumps({"repository": repository, "pins": [to_json(pin) for pin in found]}))
        return
    for pin in found:
        click.echo(f"{pin.pin_id}  {pin.text}")
    if not found:
        click.echo(f"nothing of {repository} is pinned")
