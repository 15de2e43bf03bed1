"""`dredge icechunk all`: an expiration and a collection for each of many repositories, here."""

from __future__ import annotations

from typing import Any

import click

from dredge.commands.many import log_lines, tell_of_all
from dredge.commands.options import setting_options
from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.expiration.config import ExpireConfig
from dredge.icechunk.many import ManyConfig
from dredge.settings import settings_of


@click.command("all")
@click.option("--apply", is_flag=True, help="Expire and delete (default: dry runs).")
@setting_options(ManyConfig)
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repositories collected at the same time.",
)
@setting_options(ExpireConfig, without=("estimate",))
@setting_options(CollectConfig, without=("storage", "dry_run", "approvers"))
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
def all_command(apply: bool, at_once: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Expire and collect many Icechunk repositories here, each by a run of its own. Only says what would go, unless
    --apply is given.

    The settings are those of the DAG icechunk_all, and so is the page about all. A run that awaits approval is one that
    needs a look; `dredge icechunk approve` and `resume` let it go on.

    \b
    Examples:
      dredge icechunk all --storages 's3://lake/*' --older-than 30d

    \b
    Exit codes: 0 done, or shown · 2 bad input · 4 a folder of repositories cannot be listed
                9 some repositories need a look; the others are done
    """
    given = {name: value for name, value in settings.items() if value is not None}
    many = ManyConfig.from_params(_taken(given, ManyConfig))
    expiration = ExpireConfig.from_params(_taken(given, ExpireConfig))

    def config_of(uri: str) -> CollectConfig:
        return CollectConfig.from_params({**given, "storage": uri, "dry_run": not apply})

    config_of("file:///all")  # what does not fit is found before anything is done
    if not many.wanted:
        raise ConfigError("storages is empty: name the repositories, such as --storages 's3://lake/*'")
    log_lines(quiet)
    raise SystemExit(_collect(many, expiration, config_of, at_once, given.get("run_root"), as_json))


def _taken(given: dict[str, Any], kind: type) -> dict[str, Any]:
    """Take the settings of a dataclass out of what was given."""
    return {found.name: given.pop(found.name) for found in settings_of(kind) if found.name in given}


def _collect(
    many: ManyConfig,
    expiration: ExpireConfig,
    config_of: Any,
    at_once: int,
    run_root: str | None,
    as_json: bool,
) -> int:
    from dredge.icechunk.collect_each import collect_each
    from dredge.icechunk.many import choose_repositories, summary_root
    from dredge.runs.tasks import LocalRunner

    chosen, missing = choose_repositories(many, ())
    with LocalRunner() as runner:
        outcomes = list(collect_each(chosen, expiration, config_of, runner, at_once))
    return tell_of_all(outcomes, missing, summary_root(many, run_root, chosen), "icechunk-all", as_json)
