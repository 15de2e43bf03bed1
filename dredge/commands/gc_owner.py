"""`dredge gc own` and `lift-block`: which server owns a namespace, and the end of a block."""

from __future__ import annotations

import json
from typing import Any

import click

_REASON = click.option("--reason", required=True, help="Why, in your words; kept with the state.")
_BY = click.option("--by", metavar="NAME", help="Who says so. Default: the login name.")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.command("own")
@click.argument("repository")
@click.option("--alias", is_flag=True, help="The URL of the connection is another URL of the owner's server.")
@click.option(
    "--without-id", is_flag=True, help="Consent to deletions without the right fs:UpdateRepository."
)
@_REASON
@_BY
@_JSON
def own_command(
    repository: str, alias: bool, without_id: bool, reason: str, by: str | None, as_json: bool
) -> None:
    """Make the server of the lakeFS connection the owner of REPOSITORY's namespace.

    Only the owner's runs delete and purge there. The first complete run of a namespace makes its server the owner; this
    command is for a server that has moved, or takes over. With --alias the owner stays, and the connection's URL is
    noted as another one of the same server. With --without-id a person consents to deletions although lakeFS does not
    keep the id of the last mark, by which a copy or an older state of its database is recognized.

    \b
    Examples:
      dredge gc own my-repo --reason "moved to the new cluster on Monday"
      dredge gc own my-repo --alias --reason "the load balancer's name"

    \b
    Exit codes: 0 done · 2 bad input · 3 not the owner's server, or a run is in progress
                4 the server or the store is not available · 6 no such repository
    """
    from dredge.errors import ConfigError
    from dredge.gc.witness import people

    if alias and without_id:
        raise ConfigError(
            "--alias and --without-id are two statements: give the command twice. Nothing was changed."
        )
    if alias:
        done, text = people.add_alias(repository, reason, by), "another URL was noted"
    elif without_id:
        done, text = people.consent_without_id(repository, reason, by), "deletions without an id are allowed"
    else:
        done, text = people.take_over(repository, reason, by), "the owner was set"
    _show(done, text, as_json)
    if not done["has_id"] and not without_id and not as_json:
        click.secho(
            "* lakeFS keeps no id: grant fs:UpdateRepository, or give --without-id as well", fg="yellow"
        )


@click.command("lift-block")
@click.argument("repository")
@_REASON
@_BY
@_JSON
def lift_block_command(repository: str, reason: str, by: str | None, as_json: bool) -> None:
    """Lift the block of REPOSITORY's namespace: runs of the owner delete there again.

    A run that saw a server with an older database, or another one, leaves the block; its message has the likely causes.
    Lift it only when the cause is known, with the connection of the right server: the next run takes this server, as it
    is now, for the right one.

    \b
    Examples:
      dredge gc lift-block my-repo --reason "the rehearsal ran with production's URL; its DAGs are paused"

    \b
    Exit codes: 0 lifted · 2 bad input, or no block · 3 not the owner's server, or a run is in progress
                4 the server or the store is not available · 6 no such repository
    """
    from dredge.gc.witness.people import lift_block

    done = lift_block(repository, reason, by)
    _show(done, f"the block of run {done['block']['run_id']} ({done['block']['kind']}) was lifted", as_json)


def _show(done: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(done))
        return
    owner = done["owner"]
    click.echo(f"{done['repository']}: {text}")
    if owner is not None:
        urls = ", ".join([owner["environment"]["url"], *owner["aliases"]])
        click.echo(f"owner: {urls}, since {owner['since']}")
