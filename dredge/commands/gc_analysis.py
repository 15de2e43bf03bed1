"""`dredge gc why`, `cost`, `plan` and `metadata`: why objects are kept, costs, and files without a commit."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import FiniteRange
from dredge.commands.printing import JSON, given, setting_options
from dredge.errors import ConfigError
from dredge.gc.metadata.config import DELETE, REPORT, MetadataConfig
from dredge.gc.storage_classes import STORAGE_CLASSES
from dredge.lakefs import LakeFSClient
from dredge.runs.clock import utc_now
from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.gc.insight.base_run import BaseRun
    from dredge.gc.insight.what_if import Proposal
    from dredge.gc.mark_uncommitted import KVAccess
    from dredge.runs.payload import StepSummary

_RUN = click.option(
    "--run", "run_uri", metavar="RUN", help="URI of a clean run's folder (default: the newest complete one)."
)


_ROOT = click.option(
    "--run-root", metavar="URI", help="URI of the folder with the runs, if they had a run root."
)


@click.command("why")
@click.argument("what", metavar="ADDRESS|lakefs://REPO/REF/PATH")
@click.option("--repository", metavar="NAME", help="Repository of ADDRESS, unless it is a whole URI.")
@_ROOT
@click.option(
    "--requests",
    "requests_max",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="Limit of requests to branches for staged entries, without a key-value store.",
)
@JSON
def why_command(
    what: str, repository: str | None, run_root: str | None, requests_max: int, as_json: bool
) -> None:
    """List the reasons to keep an object, with their end, or the run that deleted it. Read-only.

    The server and the store are found as by `dredge gc run`. With DREDGE_KV_URL, staged entries are read
    from lakeFS's key-value store; otherwise from the branches, and the answer lists its gaps.

    \b
    Examples:
      dredge gc why lakefs://my-repo/main/a/b

    \b
    Exit codes: 0 the object is kept · 1 no known reason to keep it, or it is deleted · 2 bad input
                3 the history cannot be read · 4 the server or the store is not available
                6 no such repository or path
    """
    from dredge.gc.insight.why import why
    from dredge.gc.insight.why_answer import KEPT, UNKNOWN, answer_lines, find_target

    client = LakeFSClient.from_env()
    target = find_target(client, what, repository)
    answer = why(client, target, utc_now(), run_root, kv_access(), requests_max=requests_max)
    if as_json:
        click.echo(json.dumps(to_json(answer) | {"verdict": answer.verdict}))
    else:
        for line in answer_lines(answer):
            click.echo(line)
    raise SystemExit({KEPT: 0, UNKNOWN: 4}.get(answer.verdict, 1))


@click.command("cost")
@click.argument("repository")
@_RUN
@_ROOT
@click.option(
    "--price-per-gb-month", "price", type=FiniteRange(min=0), help="US dollars for a GiB and month."
)
@click.option(
    "--storage-class", metavar="NAME", help="Use the list price of STANDARD, STANDARD_IA, GCS_STANDARD, …"
)
@JSON
def cost_command(
    repository: str,
    run_uri: str | None,
    run_root: str | None,
    price: float | None,
    storage_class: str | None,
    as_json: bool,
) -> None:
    """Count objects and bytes by kind, by their only branch and by age. Read-only.

    The figures are of the newest clean run, dry or not: start one with `dredge gc run REPOSITORY --mode clean`.

    \b
    Examples:
      dredge gc cost my-repo

    \b
    Exit codes: 0 counted · 2 bad input, or no such run · 3 a range is missing · 4 the store is not available
                5 a file cannot be trusted · 6 no such repository
    """
    from dredge.gc.insight.cost import cost_lines, cost_of

    price = _price(price, storage_class)
    base = _base(repository, run_uri, run_root)
    found = cost_of(base).tables()
    if as_json:
        click.echo(json.dumps({**found, "repository": repository, "price_per_gib_month": price}))
        return
    click.secho(f"{repository}, as {base.text} saw it", bold=True)
    for line in cost_lines(found, price):
        click.echo(line)


@click.command("plan")
@click.argument("repository")
@click.option(
    "--retention-days", "days", metavar="7,14,30", help="Days to try, for the default or for --branch."
)
@click.option("--branch", metavar="NAME", help="Try --retention-days for this branch only.")
@click.option(
    "--rules",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Try the rules of a file, in the format of `lakectl gc set-config`; repeatable.",
)
@_RUN
@_ROOT
@JSON
def plan_command(
    repository: str,
    days: str | None,
    branch: str | None,
    files: tuple[str, ...],
    run_uri: str | None,
    run_root: str | None,
    as_json: bool,
) -> None:
    """Estimate the effect of other garbage collection rules. Read-only.

    Figures are for a clean dry run under these rules, from the listing, staging and history
    of the newest clean run. "≤" marks upper bounds, because commits without a ref may keep some of
    these objects. With DREDGE_KV_URL they are read from lakeFS's key-value store, and all figures are exact.

    \b
    Examples:
      dredge gc plan my-repo

    \b
    Exit codes: 0 estimated · 2 bad input, or no such run · 3 a range is missing · 4 the server or the store is
                not available · 5 a file cannot be trusted · 6 no such repository
    """
    from dredge.gc.insight.what_if import table_lines, what_if

    client = LakeFSClient.from_env()
    base = _base(repository, run_uri, run_root)
    proposals = _proposals(base, days, branch, files)
    access = kv_access()
    known = None
    if access is not None:
        with access.records(repository, base.plan.namespace) as records:
            known = records.commits()
    foreseen = what_if(base, proposals, lambda item: client.commit(repository, item), known)
    found = [to_json(item) for item in foreseen]
    unnamed = base.unnamed_metaranges()
    if as_json:
        value = {"repository": repository, "run_id": base.plan.run_id, "proposals": found}
        click.echo(json.dumps(value | {"unnamed_metaranges": unnamed}))
        return
    click.secho(f"{repository}, as {base.text} saw it", bold=True)
    for line in table_lines(found):
        click.echo(line)
    if unnamed:
        click.echo(
            f"Metaranges that count as active, although no active commit has them: {len(unnamed):,}. Their objects"
            " stay under all rules; --json has the ids."
        )


def _proposals(base: BaseRun, days: str | None, branch: str | None, files: tuple[str, ...]) -> list[Proposal]:
    from dredge.gc.insight.what_if import as_now, by_days, from_file, read_days

    if branch is not None and days is None:
        raise ConfigError("--branch needs --retention-days")
    found = as_now(base.rules)
    if days is not None or not files:
        found += by_days(base.rules, read_days(days or "7,14,30,60,90"), branch)
    return found + [from_file(Path(name).read_text(encoding="utf-8"), name) for name in files]


def _base(repository: str, run_uri: str | None, run_root: str | None) -> BaseRun:
    from dredge.gc.insight.base_run import find_base, open_base

    if run_uri is not None:
        found = open_base(run_uri)
        if found.plan.repository != repository:
            raise ConfigError(f"{run_uri} is a run of {found.plan.repository}, not of {repository}")
        return found
    root = run_root or LakeFSClient.from_env().repository(repository).namespace
    newest = find_base(root, repository)
    if newest is None:
        raise ConfigError(
            f"no clean run of {repository} was found below {root}. `dredge gc run {repository} --mode clean` makes one,"
            " and deletes nothing."
        )
    return newest


def _price(price: float | None, storage_class: str | None) -> float | None:
    if storage_class is None:
        return price
    if price is not None:
        raise ConfigError("give a price or a storage class, not both")
    if storage_class not in STORAGE_CLASSES:
        raise ConfigError(f"no price is known for {storage_class!r}; there are {', '.join(STORAGE_CLASSES)}")
    return STORAGE_CLASSES[storage_class]


def kv_access() -> KVAccess | None:
    """Return the access to the key-value store; None if the environment has no URL."""
    from dredge.gc.mark_uncommitted import KVAccess
    from dredge.gc.mark_uncommitted.kv_store import URL

    return KVAccess.from_env() if os.environ.get(URL) else None


@click.command("metadata")
@click.argument("repository")
@click.option("--note", is_flag=True, help="Start their wait, and restore deleted ones that a commit needs.")
@click.option("--apply", is_flag=True, help="Also delete files whose wait is over.")
@setting_options(MetadataConfig, without=("repository", "metadata", "dry_run"))
@JSON
def metadata_command(repository: str, note: bool, apply: bool, as_json: bool, **settings: Any) -> None:
    """List range and metarange files without a commit, and the cost of commits without a ref.

    Server and store are found as by `dredge gc run`. Commits without branch and tag are read from lakeFS's key-value
    store with DREDGE_KV_URL; without it, their files are listed as files without a commit.

    Only --note and --apply make changes; both need DREDGE_KV_URL. --apply deletes files found by an earlier
    run, after --grace-hours, in a bucket with versions. If a later commit refers to such a file
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
    asked = {"repository": repository, "metadata": DELETE if apply else REPORT, "dry_run": False}
    config = MetadataConfig.from_params(given(settings) | asked)
    if note or apply:
        from dredge.gc.metadata.collecting import collect_metadata

        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        _show(collect_metadata(config), as_json)
    else:
        _report(config, as_json)


def _report(config: MetadataConfig, as_json: bool) -> None:
    from dredge.gc.metadata.files import report_lines, report_metadata

    min_age = timedelta(hours=config.min_age_hours)
    report = report_metadata(LakeFSClient.from_env(), config.repository, utc_now(), min_age, kv_access())
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
        click.echo(f"The first waiting files may be deleted from {first:.16} UTC on.".replace("T", " "))
    for warning in summary.warnings:
        click.secho(f"* {warning}", fg="yellow")


_WORDS = {
    "garbage_files": "files without a commit were found",
    "waiting_files": "of them wait",
    "confirmed_files": "of them have ended their wait",
    "deleted_files": "were deleted; their copies stay below the run's folder",
    "kept_files": "are kept: a commit refers to them now",
    "put_back_files": "were restored: a commit refers to them now",
    "purged_copies": "old copies were permanently deleted",
    "kept_copies": "older copies stay: a commit refers to their file, or they have no version id",
}
