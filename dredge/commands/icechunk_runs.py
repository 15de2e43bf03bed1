"""`dredge icechunk runs`, `report`, `resume`, `approve` and `reject`: what became of collections, and what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dredge.commands.answering import answer_commands
from dredge.commands.runs import exit_code_of, rows_of_runs, show_report, show_runs
from dredge.commands.terminal import naming_resume, show_progress

if TYPE_CHECKING:
    from dredge.icechunk.collection.run import Run

approve_command, reject_command = answer_commands(
    "icechunk", "s3://bucket/weather/_dredge/runs/RUN", "dredge.icechunk.collection.steps"
)


@click.command("runs")
@click.argument("uri", metavar="URI")
@click.option("--limit", default=20, show_default=True, help="Newest runs to show; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def runs_command(uri: str, limit: int, as_json: bool) -> None:
    """List the collections and expirations of a repository, newest first.

    URI is the repository, or the run root that its runs were given.

    \b
    Examples:
      dredge icechunk runs s3://bucket/weather --limit 5

    \b
    Exit codes: 0 listed (also when there are none) · 2 bad input · 4 the store is not available
    """
    from dredge.icechunk.expiration.stored import list_applied
    from dredge.icechunk.maintenance import RUNS

    applied = list_applied(uri, limit)
    rows = [
        {
            "expiration_id": found.expiration_id,
            "applied_at": found.at.isoformat(),
            "older_than": found.expiration.threshold,
            "released_snapshots": found.released,
            "refs_deleted": list(found.refs_deleted),
        }
        for found in applied
    ]
    show_runs(rows_of_runs(uri, RUNS, limit, _report, _deleted), uri, as_json, expirations=rows)
    if applied and not as_json:
        click.echo(
            f"\n{'EXPIRATION':<22}{'APPLIED (UTC)':<21}{'OLDER THAN':<21}{'RELEASED':>12}{'REFS DELETED':>14}"
        )
    for found in () if as_json else applied:
        times = [f"{at:%Y-%m-%d %H:%M:%S}" for at in (found.at, found.expiration.instant)]
        refs = len(found.refs_deleted)
        click.echo(f"{found.expiration_id:<22}{times[0]:<21}{times[1]:<21}{found.released:>12,}{refs:>14,}")


@click.command("report")
@click.argument("uri", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON object.")
def report_command(uri: str, as_json: bool) -> None:
    """Show the report of a collection. Also works while the run goes on and after it failed.

    RUN is the URI of the run's folder, as `dredge icechunk runs` shows it.

    \b
    Examples:
      dredge icechunk report s3://bucket/weather/_dredge/runs/RUN --json

    \b
    Exit codes: 0 the run is a success, a dry run or still going on · 1 it failed or deleted only a part
                2 no such run · 3 a guard refused it, it awaits approval, or was rejected
                4 the store is not available
    """
    found = _report(uri.rstrip("/"))
    show_report(found, as_json)
    raise SystemExit(exit_code_of(found))


@click.command("resume")
@click.argument("uri", metavar="RUN")
@click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
@click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
@click.option("--json", "as_json", is_flag=True, help="The whole report as one JSON object.")
def resume_command(uri: str, processes: int, quiet: bool, as_json: bool) -> None:
    """Go on with a run of `dredge icechunk collect` from what is complete: after its approval, or after a step failed.

    \b
    Examples:
      dredge icechunk resume s3://bucket/weather/_dredge/runs/RUN

    \b
    Exit codes: those of `dredge icechunk collect`
    """
    from dredge.icechunk.collection.steps import reopen_run

    show_progress(quiet)
    end_run(reopen_run(uri.rstrip("/")), processes, as_json)


def end_run(run: Run, processes: int, as_json: bool) -> None:
    """Do what is left of a local run, and show the report of whatever became of it.

    Args:
        run: planned, or reopened.
        processes: worker processes; 0 works in this one.
        as_json: shows the report as one JSON object.

    Raises:
        DredgeError: a step could not be done.
    """
    from dredge.icechunk.collection.report import build_report
    from dredge.icechunk.collection.steps import to_its_end
    from dredge.runs.failures import closing_with
    from dredge.runs.tasks import LocalRunner

    def show() -> None:
        show_report(build_report(run), as_json, run.plan.run_uri)

    uri = run.plan.run_uri
    with (
        naming_resume("dredge icechunk", uri),
        closing_with(show, "showing the report"),
        LocalRunner(processes) as runner,
    ):
        to_its_end(run, runner)


def _report(uri: str) -> dict[str, Any]:
    from dredge.icechunk.collection.report import build_report
    from dredge.icechunk.collection.run import Run

    return build_report(Run.open(uri))


def _deleted(found: dict[str, Any]) -> int | None:
    deleted: int = found["deleted"]["objects"]
    return deleted
