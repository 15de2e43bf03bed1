"""`dredge gc lost` and `dredge gc forget-lost`: commits that lakeFS lost with its database."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dredge.commands.options import FiniteRange
from dredge.gc.config import KEEP_UNNAMED_DAYS
from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.gc.mark_uncommitted import KVAccess
    from dredge.gc.witness.lost import LostCommit, Restored

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_DAYS = click.option(
    "--keep-unnamed-days",
    type=FiniteRange(min=0),
    default=KEEP_UNNAMED_DAYS,
    show_default=True,
    help="How long metaranges count that no known commit names, as in the runs.",
)


@click.command("lost")
@click.argument("repository")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--apply", is_flag=True, help="Make the named commits known to lakeFS again.")
@_DAYS
@_JSON
def lost_command(
    repository: str, names: Sequence[str], apply: bool, keep_unnamed_days: float, as_json: bool
) -> None:
    """List commits that lakeFS lost, such as after its database was restored, and make them known again.

    Listed are commits that the last complete run called active and lakeFS does not know, and metaranges in the bucket
    that no known commit names. Such a metarange is of a commit that no run saw, of one that waits in a hook, or of a
    branch that was deleted; name lakeFS's key-value store (DREDGE_KV_URL) to leave out those of deleted branches.

    With --apply each NAME of the list becomes the head of a branch dredge-lost-…, with its lost ancestors: a commit
    keeps its id where its fields are recorded; a metarange gets a new commit. Nothing else is changed. The user of the
    connection needs fs:CreateCommit and fs:CreateBranch. Server and store are found as by `dredge gc run`.

    \b
    Examples:
      dredge gc lost my-repo
      dredge gc lost my-repo 1d8e… 77ab… --apply

    \b
    Exit codes: 0 listed, or made known · 2 bad input, or a missing right
                3 the history cannot be read, or the content of a commit is not in the bucket
                4 the server or the store is not available · 5 the record of the last run cannot be trusted
                6 no such repository · 7 another branch has the name
    """
    from dredge.errors import ConfigError
    from dredge.gc.witness.lost import LostCommits
    from dredge.lakefs.writing import LakeFSWriter

    if apply != bool(names):
        raise ConfigError(
            "Name the commits to make known again, and give --apply. Nothing was changed. Without both, the command"
            " lists them."
        )
    client = LakeFSWriter.from_env()
    found = LostCommits.find(client, repository, keep_unnamed_days, _kv_access())
    if not apply:
        _show_lost(found.found, repository, as_json)
        return
    for restored in found.restore(client, names):
        _show_restored(restored, as_json)


@click.command("forget-lost")
@click.argument("repository")
@click.option("--reason", required=True, help="Why the older state is wanted; it is kept with the state.")
@_DAYS
@_JSON
def forget_lost_command(repository: str, reason: str, keep_unnamed_days: float, as_json: bool) -> None:
    """Give up all commits that lakeFS lost: the older state of the database is the wanted one.

    The commits of `dredge gc lost` become garbage, and runs accept their absence; later losses are refused again. The
    statement is kept with the state of the repository. It needs the connection of the namespace's owner, and no run
    may be in progress. The block of a refused run remains until `dredge gc lift-block` ends it.

    \b
    Examples:
      dredge gc forget-lost my-repo --reason "restored on purpose to Monday, ticket 123"

    \b
    Exit codes: 0 recorded · 2 bad input · 3 the history cannot be read, a run is at work, or the server is not
                the owner · 4 the server or the store is not available · 6 no such repository
    """
    from dredge.gc.witness.lost import forget_lost
    from dredge.lakefs import LakeFSClient

    consent, found = forget_lost(LakeFSClient.from_env(), repository, reason, keep_unnamed_days, _kv_access())
    if as_json:
        click.echo(json.dumps({"at": consent.at.isoformat(), "lost": [to_json(item) for item in found]}))
        return
    _show_lost(found, repository, as_json=False)
    click.echo(
        f"{consent.who} gave up {len(found):,} commits at {consent.at:%Y-%m-%d %H:%M} UTC: {consent.why}"
    )


def _kv_access() -> KVAccess | None:
    from dredge.gc.mark_uncommitted.kv_store import URL, KVAccess

    return KVAccess.from_env() if os.environ.get(URL) else None


def _show_lost(found: Sequence[LostCommit], repository: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([to_json(item) for item in found]))
        return
    if not found:
        click.echo(
            f"{repository}: lakeFS knows every commit of the last complete run; no metarange is unnamed"
        )
        return
    click.echo(f"{'NAME':64}  {'KIND':7}  {'WRITTEN (UTC)':16}  {'OBJECTS':>12}  WHAT")
    for item in found:
        written = "not there" if item.written_at is None else f"{item.written_at:%Y-%m-%d %H:%M}"
        objects = "?" if item.objects is None else f"{item.objects:,}"
        click.echo(f"{item.name:64}  {item.kind:7}  {written:16}  {objects:>12}  {_describe(item)}")


def _describe(item: LostCommit) -> str:
    words = [f"head of {', '.join(item.branches)}"] if item.branches else []
    text = None if item.commit is None else item.commit.text
    if text is not None:
        words.append(f"{text.message!r} by {text.committer}")
    return "; ".join(words)


def _show_restored(item: Restored, as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {"name": item.name, "how": item.how, "commit_id": item.commit_id, "branch": item.branch}
            )
        )
        return
    commit = "" if item.commit_id == item.name else f" as commit {item.commit_id}"
    click.echo(f"{item.name} is known again{commit}: the head of branch {item.branch}")
