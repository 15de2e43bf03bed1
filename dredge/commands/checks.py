"""`dredge gc check`, `dredge icechunk check` and `dredge trash check`: the lines of a preflight, and its exit code."""

from __future__ import annotations

import json
import sys

import click

from dredge.commands.options import setting_options
from dredge.errors import RefusedError
from dredge.gc.config import GCConfig
from dredge.icechunk.collection.config import CollectConfig
from dredge.runs.preflight import Preflight

_JSON = click.option("--json", "as_json", is_flag=True, help="The lines as one JSON object.")
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("check")
@click.argument("repository")
@setting_options(GCConfig, without=("repository", "dry_run", "approvers"))
@_JSON
def gc_check_command(repository: str, as_json: bool, **settings: object) -> None:
    """Ask for everything that a collection of REPOSITORY will need, within 20 seconds.

    Server, store and key-value store are found as by `dredge gc run`, and so are settings. Nothing is changed: a small
    object is written below data/ and below _lakefs/, to try the rights, and removed again.

    \b
    Examples:
      dredge gc check my-repo
      dredge gc check my-repo --undo versions --json

    \b
    Exit codes: 0 all is well, or there are warnings · 2 bad input · 3 there are errors: a run would fail
    """
    from dredge.gc.preflight import check

    given = {name: value for name, value in settings.items() if value is not None}
    config = GCConfig.from_params({**given, "repository": repository, "dry_run": False})
    show(check(config), as_json)


@click.command("check")
@click.argument("uri", metavar="URI")
@setting_options(CollectConfig, without=("storage", "dry_run", "approvers"))
@_JSON
def icechunk_check_command(uri: str, as_json: bool, **settings: object) -> None:
    """Ask for everything that a collection of the Icechunk repository at URI will need, within 20 seconds.

    Nothing is changed: a small object is written in two folders, to try the rights, and removed again.

    \b
    Examples:
      dredge icechunk check s3://bucket/weather

    \b
    Exit codes: 0 all is well, or there are warnings · 2 bad input · 3 there are errors: a run would fail
    """
    from dredge.icechunk.preflight import check

    given = {name: value for name, value in settings.items() if value is not None}
    show(check(CollectConfig.from_params({**given, "storage": uri, "dry_run": False})), as_json)


def show(found: Preflight, as_json: bool) -> None:
    """Print the lines; ends the process with 3 where there are errors."""
    if as_json:
        click.echo(json.dumps(found.to_report()))
    else:
        for line in found.lines:
            click.secho(f"{line.level:<8}", fg=_COLOURS[line.level], nl=False)
            click.echo(f"{line.check}: {line.text}")
            if line.todo:
                click.echo(f"        → {line.todo}")
        click.echo(f"{found.about}: {found.level}, after {found.seconds:.1f} s")
    if found.level == "error":
        sys.exit(RefusedError.exit_code)
