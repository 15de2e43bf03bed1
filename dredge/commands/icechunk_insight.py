"""`dredge icechunk cost` and `why`: the bytes of refs and snapshots, and the reasons that keep an object."""

from __future__ import annotations

import json

import click

from dredge.commands.options import JSON, FiniteRange
from dredge.runs.payload import to_json
from dredge.storage import open_reader


@click.command("cost")
@click.argument("uri", metavar="URI")
@click.option(
    "--price-per-gb-month", "price", type=FiniteRange(min=0), help="US dollars for a GiB and month."
)
@click.option(
    "--top", type=click.IntRange(min=1), default=10, show_default=True, help="Refs and snapshots at most."
)
@JSON
def cost_command(uri: str, price: float | None, top: int, as_json: bool) -> None:
    """Show the bytes of a repository, and those that only one branch, tag or snapshot keeps. Only reads.

    Reads every live manifest and lists the repository, as a dry run of a collection does.

    \b
    Examples:
      dredge icechunk cost s3://bucket/weather

    \b
    Exit codes: 0 shown · 3 main or the repo info is missing · 4 the store is not available
                5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.insight import cost_lines, measure_cost
    from dredge.icechunk.repository import read_history

    reader = open_reader(uri)
    found = measure_cost(reader, read_history(reader))
    if as_json:
        click.echo(json.dumps(to_json(found)))
        return
    for line in cost_lines(found, price, top):
        click.echo(line)


@click.command("why")
@click.argument("uri", metavar="URI")
@click.argument("name", metavar="ID|KEY")
@JSON
def why_command(uri: str, name: str, as_json: bool) -> None:
    """List everything that keeps an object, or the run that deleted it. Only reads.

    The object is a chunk, manifest, snapshot or transaction log, by its id or key.

    \b
    Examples:
      dredge icechunk why s3://bucket/weather chunks/1CECHNKREP0F1RSTCMT0

    \b
    Exit codes: 0 the object is kept · 1 nothing that was read keeps it, or it is deleted · 2 bad input
                3 main or the repo info is missing · 4 the store is not available
                5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.insight import answer_lines, find_why

    found = find_why(uri, name)
    if as_json:
        click.echo(json.dumps(to_json(found) | {"kept": found.is_kept}))
    else:
        for line in answer_lines(found):
            click.echo(line)
    raise SystemExit(0 if found.is_kept else 1)
