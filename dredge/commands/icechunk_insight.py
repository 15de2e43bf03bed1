"""`dredge icechunk cost` and `why`: the bytes of refs and snapshots, and the reasons that keep an object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dredge.commands.printing import JSON, FiniteRange
from dredge.runs.payload import to_json
from dredge.runs.rendering import size_text
from dredge.storage import open_reader

if TYPE_CHECKING:
    from dredge.icechunk.insight import Answer, Cost

_SHOWN = 10


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
    from dredge.icechunk.insight import measure_cost
    from dredge.icechunk.repository import read_history

    reader = open_reader(uri)
    found = measure_cost(reader, read_history(reader))
    if as_json:
        click.echo(json.dumps(to_json(found)))
        return
    for line in _cost_lines(found, price, top):
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
    from dredge.icechunk.insight import find_why

    found = find_why(uri, name)
    if as_json:
        click.echo(json.dumps(to_json(found) | {"kept": found.is_kept}))
    else:
        for line in _answer_lines(found):
            click.echo(line)
    raise SystemExit(0 if found.is_kept else 1)


def _cost_lines(cost: Cost, price: float | None = None, top: int = _SHOWN) -> Iterator[str]:
    def size(size_bytes: int) -> str:
        dollars = "" if price is None else f"  {size_bytes / 2**30 * price:,.2f} $/month"
        return f"{size_text(size_bytes):>12}{dollars}"

    yield f"{cost.objects:,} objects, {size(cost.size_bytes).strip()}"
    yield f"unreachable: {cost.unreachable_objects:,} objects, {size(cost.unreachable_bytes).strip()}"
    for title, shares in (("only this ref keeps", cost.refs), ("only this snapshot keeps", cost.snapshots)):
        yield ""
        yield f"{title}:"
        for share in shares[:top]:
            yield f"{size(share.size_bytes)}  {share.objects:>10,} objects  {share.owner}"
        if len(shares) > top:
            yield f"… and {len(shares) - top:,} more"


def _answer_lines(answer: Answer) -> Iterator[str]:
    from dredge.icechunk.collection.kinds import NAMES, OBJECT_FOLDERS

    for key in answer.keys:
        yield f"{key} exists ({NAMES[next(kind for kind, prefix in OBJECT_FOLDERS.items() if key.startswith(prefix))]})"
    if not answer.keys:
        yield "no object with this id exists"
    if answer.snapshots:
        more = f" and {len(answer.snapshots) - _SHOWN:,} more" if len(answer.snapshots) > _SHOWN else ""
        yield f"needed by {len(answer.snapshots):,} snapshots: {', '.join(answer.snapshots[:_SHOWN])}{more}"
        yield f"reached by {', '.join(answer.refs[:_SHOWN]) or 'no ref; the repo info lists them'}"
    if answer.virtual_in:
        yield f"locations of virtual chunks name it in manifests {', '.join(answer.virtual_in[:_SHOWN])}"
    if answer.in_config:
        yield "a container of virtual chunks in the configuration names it"
    if answer.pinned_until is not None:
        yield f"pinned until {answer.pinned_until:%Y-%m-%d %H:%M} UTC"
    if not answer.is_kept and answer.keys:
        yield "no live snapshot, location of a virtual chunk or pin names it"
        yield (
            "a collection also keeps what young, lost, pinned or waiting files and referring repositories need:"
            " see its dry run"
        )
    for row in answer.waiting:
        since = "" if row["since"] is None else f" since {row['since']}"
        yield f"pending list: {row['key']} is {row['status']}{since}"
    for row in answer.deleted_by:
        yield f"deleted by run {row['run_id']} after {row['at']} (undo: {row['undo']})"
