"""`dredge gc all`: a run for each repository of a server, here."""

from __future__ import annotations

from typing import Any

import click

from dredge.commands.many import log_lines, tell_of_all
from dredge.commands.options import setting_options
from dredge.gc.config import GCConfig
from dredge.gc.many.choose import ManyConfig
from dredge.settings import settings_of


@click.command("all")
@click.option("--apply", is_flag=True, help="Delete objects (default: dry runs).")
@setting_options(ManyConfig)
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repositories collected at the same time.",
)
@setting_options(GCConfig, without=("repository", "dry_run"))
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
def all_command(apply: bool, at_once: int, quiet: bool, as_json: bool, **settings: Any) -> None:
    """Collect all repositories of a server here, each by a run of its own. Only says what would go, unless --apply is
    given.

    Server and store are found as by `dredge gc run`, and the settings are those of each run. Repositories on which
    another collector works are left out. A summary of all runs is written as a page.

    \b
    Examples:
      dredge gc all --json

    \b
    Exit codes: 0 done, or shown · 2 bad input, or no way to the server
                4 the server is not available · 9 some repositories need a look; the others are done
    """
    given = {name: value for name, value in settings.items() if value is not None}
    which = {found.name: given.pop(found.name) for found in settings_of(ManyConfig) if found.name in given}
    many = ManyConfig.from_params(which)

    def config_of(repository: str) -> GCConfig:
        return GCConfig.from_params({**given, "repository": repository, "dry_run": not apply})

    config_of("all")  # what does not fit is found before anything is done
    log_lines(quiet)
    raise SystemExit(_collect(many, config_of, at_once, given.get("run_root"), as_json))


def _collect(many: ManyConfig, config_of: Any, at_once: int, run_root: str | None, as_json: bool) -> int:
    from dredge.gc.many.choose import choose_repositories
    from dredge.gc.many.collect import collect_each
    from dredge.lakefs import LakeFSClient
    from dredge.runs.tasks import LocalRunner

    client = LakeFSClient.from_env()
    chosen = choose_repositories(many, client, None, run_root)
    with LocalRunner() as runner:
        outcomes = list(collect_each(chosen.repositories, config_of, runner, client, at_once))
    return tell_of_all(outcomes, chosen.left_out, chosen.summary_root, "gc-all", as_json)
