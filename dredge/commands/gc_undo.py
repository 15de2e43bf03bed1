"""`dredge gc restore`, `purge` and `pins`: restore deletions, make them final, and list pins."""

from __future__ import annotations

from typing import Any

import click

from dredge.commands.options import setting_options
from dredge.commands.terminal import show_progress
from dredge.commands.undo_answers import show_outcomes, show_pins
from dredge.gc.undo_config import PurgeConfig, RestoreConfig

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)


@click.command("restore")
@click.argument("run", metavar="RUN")
@click.option("--repository", metavar="NAME", help="Whose RUN is, when it is an id.")
@click.option("--all", "everything", is_flag=True, help="All that the run deleted.")
@setting_options(RestoreConfig, without=("repository", "run", "all"))
@_PROCESSES
@_JSON
def restore_command(
    run: str, repository: str | None, everything: bool, processes: int, as_json: bool, **settings: Any
) -> None:
    """Restore objects that a run deleted: the same bytes under the same key. Existing objects are not replaced.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it, or its id. Restored objects are pinned
    for --keep-days. Objects without copy and version (`undo` was off, or they were purged) are counted and listed. A
    restore can be repeated.

    \b
    Examples:
      dredge gc restore s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --all

    \b
    Exit codes: 0 done · 2 bad input, no such run, or no matching object · 3 another run is in progress
                4 the server or the store is not available, or some objects were not restored: restore again
                5 a file cannot be trusted · 6 no such repository
    """
    from dredge.errors import ConfigError
    from dredge.gc.restore import restore
    from dredge.gc.run import read_plan
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.putting_back import OUTCOMES

    if repository is None:
        if "://" not in run:
            raise ConfigError("RUN is an id, so say whose: --repository NAME. Nothing was restored.")
        repository = read_plan(run).repository
    given = {name: value for name, value in settings.items() if value is not None}
    config = RestoreConfig.from_params({**given, "repository": repository, "run": run, "all": everything})
    show_progress(quiet=False)
    with LocalRunner(processes) as runner:
        show_outcomes(restore(config, runner), OUTCOMES, as_json)


@click.command("purge")
@click.argument("repository")
@click.option("--apply", is_flag=True, help="Delete (default: only list).")
@setting_options(PurgeConfig, without=("repository", "dry_run"))
@_PROCESSES
@_JSON
def purge_command(repository: str, apply: bool, processes: int, as_json: bool, **settings: Any) -> None:
    """Permanently delete old copies and versions of deleted objects. Only lists them without --apply.

    Only copies and versions in the ledgers of runs are deleted: copies below the run folders, and versions right below
    the delete markers. Current versions and pinned objects stay.

    \b
    Examples:
      dredge gc purge my-repo

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no such run · 3 another run is in progress
                4 the server or the store is not available, or something could not be deleted: purge again
                5 a file cannot be trusted: nothing was deleted · 6 no such repository
    """
    from dredge.gc.steps import purge
    from dredge.runs.tasks import LocalRunner
    from dredge.undo.leftovers import OUTCOMES

    given = {name: value for name, value in settings.items() if value is not None}
    config = PurgeConfig.from_params({**given, "repository": repository, "dry_run": not apply})
    show_progress(quiet=False)
    with LocalRunner(processes) as runner:
        show_outcomes(purge(config, runner), OUTCOMES, as_json)


@click.command("pins")
@click.argument("repository")
@click.option("--end", metavar="PIN", help="End this pin now: the next runs may delete its objects.")
@_JSON
def pins_command(repository: str, end: str | None, as_json: bool) -> None:
    """List restored objects that the next runs keep, with end and reason.

    \b
    Examples:
      dredge gc pins my-repo

    \b
    Exit codes: 0 listed, or ended · 2 no such pin · 4 the server or the store is not available
                5 a pin cannot be read · 6 no such repository
    """
    from dredge.gc.run import open_state
    from dredge.lakefs import LakeFSClient

    state = open_state(LakeFSClient.from_env().repository(repository).namespace)
    show_pins(state, repository, end, as_json)
