"""`dredge gc metadata`: range and metarange files that no commit names."""

from __future__ import annotations

import json
import os

import click

from dredge.commands.options import FiniteRange


@click.command("metadata")
@click.argument("repository")
@click.option(
    "--min-age-hours",
    type=FiniteRange(min=0),
    default=25.0,
    show_default=True,
    help="Younger files are not looked at: a commit may be about to name them.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def metadata_command(repository: str, min_age_hours: float, as_json: bool) -> None:
    """Say which range and metarange files no commit names, and what commits cost that nothing leads to. Only reads.

    Server and store are found as by `dredge gc run`. Commits that no branch and no tag leads to are read from lakeFS's
    key-value store when DREDGE_KV_URL names it; without it, their files count as named by no commit.

    \b
    Exit codes: 0 looked · 2 bad input · 3 the history cannot be read, or the key-value store is another one's
                4 the server or the store is not available · 5 a metarange cannot be trusted · 6 no such repository
    """
    from datetime import timedelta

    from dredge.gc.mark_uncommitted.kv_access import URL, KVAccess
    from dredge.gc.metadata import look_at_metadata, report_lines
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import utc_now

    access = KVAccess.from_env() if os.environ.get(URL) else None
    min_age = timedelta(hours=min_age_hours)
    report = look_at_metadata(LakeFSClient.from_env(), repository, utc_now(), min_age, access)
    if as_json:
        click.echo(json.dumps(report.to_json()))
        return
    for line in report_lines(report):
        click.echo(line)
