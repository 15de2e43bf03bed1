"""`dredge gc all`: a run for each repository of a server, here."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import click

from dredge.commands.options import setting_options
from dredge.gc.config import GCConfig
from dredge.gc.many.config import ManyConfig
from dredge.settings import settings_of


@click.command("all")
@click.option("--apply", is_flag=True, help="Delete; without, the runs only say what would go.")
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
    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    summary, page = _collect(many, config_of, at_once, given.get("run_root"))
    _show(summary, page, as_json)
    raise SystemExit(9 if summary["counts"]["failed_repositories"] else 0)


def _collect(many: ManyConfig, config_of: Any, at_once: int, run_root: str | None) -> tuple[Any, str]:
    from dredge.gc.many import choose_repositories, left_out, save_summary, summarize
    from dredge.gc.many.collect import collect_each
    from dredge.graveler.xid import new_descending_xid
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import utc_now
    from dredge.runs.tasks import LocalRunner

    client = LakeFSClient.from_env()
    chosen = choose_repositories(many, client, None, run_root)
    with LocalRunner() as runner:
        outcomes = list(collect_each(chosen.repositories, config_of, runner, client, at_once))
    outcomes += [left_out(name, why) for name, why in chosen.left_out.items()]
    now = utc_now()
    summary = summarize(outcomes, now)
    root = chosen.summary_root
    return summary, save_summary(summary, root, f"gc-all-{new_descending_xid(now)}") if root else ""


def _show(summary: Any, page: str, as_json: bool) -> None:
    from dredge.gc.many import table_lines

    if as_json:
        click.echo(json.dumps({**summary, "report_uri": page}))
        return
    for line in table_lines(summary):
        click.echo(line)
    if page:
        click.echo(f"\nsummary {page}")
