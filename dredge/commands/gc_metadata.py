"""`dredge gc metadata`: range and metarange files that no commit names."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from dredge.commands.options import setting_options
from dredge.gc.metadata.config import DELETE, REPORT, MetadataConfig

if TYPE_CHECKING:
    from dredge.runs.summary import StepSummary


@click.command("metadata")
@click.argument("repository")
@click.option("--note", is_flag=True, help="Start their wait, and restore files that a commit refers to.")
@click.option("--apply", is_flag=True, help="Also delete files that have waited.")
@setting_options(MetadataConfig, without=("repository", "metadata", "dry_run"))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def metadata_command(repository: str, note: bool, apply: bool, as_json: bool, **settings: Any) -> None:
    """List range and metarange files without a commit, and the cost of commits without a ref.

    Server and store are found as by `dredge gc run`. Commits without branch and tag are read from lakeFS's key-value
    store with DREDGE_KV_URL; without it, their files are listed as files without a commit.

    Only --note and --apply change something; both need DREDGE_KV_URL. --apply deletes files that an earlier run found
    and that have waited for --grace-hours since, in a bucket with versions. If a later commit refers to such a file
    without writing it (by its id), readers of that commit fail until the next run restores the file.

    \b
    Examples:
      dredge gc metadata my-repo

    \b
    Exit codes: 0 done · 2 bad input
                3 the history cannot be read, the key-value store is another server's, or another run is in progress
                4 the server or the store is not available, or a file could not be deleted
                5 a metarange cannot be trusted · 6 no such repository
    """
    given = {name: value for name, value in settings.items() if value is not None}
    asked = {"repository": repository, "metadata": DELETE if apply else REPORT, "dry_run": False}
    config = MetadataConfig.from_params(given | asked)
    if note or apply:
        from dredge.gc.metadata.collecting import collect_metadata

        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        _show(collect_metadata(config), as_json)
    else:
        _report(config, as_json)


def _report(config: MetadataConfig, as_json: bool) -> None:
    from datetime import timedelta

    from dredge.gc.mark_uncommitted.kv_store import URL, KVAccess
    from dredge.gc.metadata.files import report_lines, report_metadata
    from dredge.lakefs import LakeFSClient
    from dredge.runs.clock import utc_now

    access = KVAccess.from_env() if os.environ.get(URL) else None
    min_age = timedelta(hours=config.min_age_hours)
    report = report_metadata(LakeFSClient.from_env(), config.repository, utc_now(), min_age, access)
    if as_json:
        click.echo(json.dumps(report.figures()))
        return
    for line in report_lines(report):
        click.echo(line)


def _show(summary: StepSummary, as_json: bool) -> None:
    if as_json:
        pending = {"pending": summary.details["pending"]}
        click.echo(
            json.dumps({"run_id": summary.run_id, "status": summary.status, **summary.counts, **pending})
        )
        return
    for name, words in _WORDS.items():
        if name == "garbage_files" or summary.counts.get(name):
            click.echo(f"{summary.counts[name]:>12,}  {words}")
    if first := summary.details["pending"]["first_deletion"]:
        click.echo(f"What waits may be deleted from {first:.16} UTC on.".replace("T", " "))
    for warning in summary.warnings:
        click.secho(f"* {warning}", fg="yellow")


_WORDS = {
    "garbage_files": "files without a commit were found",
    "waiting_files": "of them wait",
    "confirmed_files": "of them have waited",
    "deleted_files": "were deleted; their copies stay below the run's folder",
    "kept_files": "are kept: a commit refers to them now",
    "put_back_files": "were restored: a commit refers to them now",
    "purged_copies": "old copies were permanently deleted",
    "kept_copies": "older copies stay: a commit refers to their file, or they have no version id",
}
