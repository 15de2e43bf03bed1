"""`dredge icechunk restore`, `lost`, `forget-lost`, `cost` and `why`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import FiniteRange, printing
from dredge.icechunk.collection.config import IcechunkRestoreConfig
from dredge.runs.payload import to_json
from dredge.runs.report import size_text
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader

if TYPE_CHECKING:
    from dredge.icechunk.insight import Answer, Cost


@click.command("restore")
@click.argument("uri", metavar="URI")
@click.argument("run", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Restore all deletions of the run.")
@click.option(
    "--expiration", is_flag=True, help="RUN is an expiration of spec 2: restore the history from before it."
)
@printing.setting_options(IcechunkRestoreConfig, without=("storage", "run", "all", "expiration"))
@printing.PROCESSES
@printing.JSON
def restore_command(
    uri: str, run: str, everything: bool, expiration: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Restore deleted objects of a collection: the same bytes under the same key. Existing objects are not replaced.

    RUN is the id of the run, or the URI of its folder, as its report says. Restored objects are pinned for
    --keep-days. Objects without copy and version (`undo` was off, or they were purged) are counted and listed. A
    restore can be repeated.

    With --expiration: restore the repo info from before an expiration, byte for byte, with the released snapshots and
    deleted refs.

    \b
    Examples:
      dredge icechunk restore s3://bucket/weather RUN --all
      dredge icechunk restore s3://bucket/weather RUN --expiration

    \b
    Exit codes: 0 done · 2 bad input, no such run, or no matching object · 3 another run is in progress
                4 the store is not available, or some objects were not restored: restore again
                5 a file cannot be trusted · 6 no repository
    """
    from dredge.icechunk.collection.steps import restore
    from dredge.undo.putting_back import OUTCOMES

    config = IcechunkRestoreConfig.from_params(
        {**printing.given(settings), "storage": uri, "run": run, "all": everything, "expiration": expiration}
    )
    printing.show_progress(quiet=False)
    if expiration:
        _restore_expiration(uri, run, as_json)
        return
    with LocalRunner(processes) as runner:
        printing.show_outcomes(restore(config, runner), OUTCOMES, as_json)


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
@printing.JSON
def lost_command(uri: str, as_json: bool) -> None:
    """List lost tips of refs, which are kept for now, and the reasons why the next collection will be refused.

    A tip is lost when an earlier collection saw it, no ref reaches it now, and no expiration released it. Restore its
    ref with Icechunk while it is kept. Read-only.

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
@printing.BY
@printing.JSON
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

    printing.show_progress(quiet=False)
    accepted = forget_lost(uri, reason, by)
    if as_json:
        click.echo(json.dumps({"accepted": accepted}))
        return
    for message in accepted:
        click.echo(f"Accepted: {message}")
    if not accepted:
        click.echo("No collection would be refused, so no statement was written.")


_SHOWN = 10


@click.command("cost")
@click.argument("uri", metavar="URI")
@click.option(
    "--price-per-gb-month", "price", type=FiniteRange(min=0), help="US dollars for a GiB and month."
)
@click.option(
    "--top", type=click.IntRange(min=1), default=10, show_default=True, help="Limit of refs and of snapshots."
)
@printing.JSON
def cost_command(uri: str, price: float | None, top: int, as_json: bool) -> None:
    """Show the bytes of a repository, and those that only one branch, tag or snapshot keeps. Read-only.

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
@printing.JSON
def why_command(uri: str, name: str, as_json: bool) -> None:
    """List the reasons to keep an object, or the run that deleted it. Read-only.

    The object is a chunk, manifest, snapshot or transaction log, by its id or key.

    \b
    Examples:
      dredge icechunk why s3://bucket/weather chunks/1CECHNKREP0F1RSTCMT0

    \b
    Exit codes: 0 the object is kept · 1 no known reason to keep it, or it is deleted · 2 bad input
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
    from dredge.icechunk.repository import NAMES, OBJECT_FOLDERS

    for key in answer.keys:
        yield f"{key} exists ({NAMES[next(kind for kind, prefix in OBJECT_FOLDERS.items() if key.startswith(prefix))]})"
    if not answer.keys:
        yield "no object with this id exists"
    if answer.snapshots:
        more = f" and {len(answer.snapshots) - _SHOWN:,} more" if len(answer.snapshots) > _SHOWN else ""
        yield f"needed by {len(answer.snapshots):,} snapshots: {', '.join(answer.snapshots[:_SHOWN])}{more}"
        yield f"reached by {', '.join(answer.refs[:_SHOWN]) or 'no ref; the repo info lists them'}"
    if answer.virtual_in:
        yield f"virtual chunks point to it, in manifests {', '.join(answer.virtual_in[:_SHOWN])}"
    if answer.in_config:
        yield "it is in a container of virtual chunks of the configuration"
    if answer.pinned_until is not None:
        yield f"pinned until {answer.pinned_until:%Y-%m-%d %H:%M} UTC"
    if not answer.is_kept and answer.keys:
        yield "no live snapshot, virtual chunk or pin keeps it"
        yield (
            "a collection also keeps what young, lost, pinned or waiting files and referring repositories need:"
            " see its dry run"
        )
    for row in answer.waiting:
        since = "" if row["since"] is None else f" since {row['since']}"
        yield f"pending list: {row['key']} is {row['status']}{since}"
    for row in answer.deleted_by:
        yield f"deleted by run {row['run_id']} after {row['at']} (undo: {row['undo']})"
