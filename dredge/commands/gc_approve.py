"""`dredge gc approve`, `reject` and `resume`: what a person says about a run that waits, and going on with it."""

from __future__ import annotations

import getpass
import logging
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dredge.gc.run import Run

_BY = click.option("--by", metavar="NAME", help="Who says so. Default: the user who runs the command.")


@click.command("approve")
@click.argument("uri", metavar="RUN")
@_BY
def approve_command(uri: str, by: str | None) -> None:
    """Approve what a waiting run would delete. RUN is the URI of its folder, as `dredge gc runs` shows it.

    The approval holds for these very candidates and for a limited time. Who gave it, and when, stands in the folder and
    in the report. `dredge gc report RUN` shows what would go. A run with approvers is approved in Airflow, which
    knows who its users are.

    \b
    Exit codes: 0 approved · 2 bad input · 3 the run asks nobody, was rejected, or cannot be approved (any more)
                4 the store is not available
    """
    from dredge.gc import steps
    from dredge.gc.approve.records import COMMAND

    run = _open(uri)
    found = steps.answer(run, "approved", by or _user(), COMMAND)
    assert found.approved is not None
    request, said = found.request, found.approved
    click.echo(
        f"run {run.plan.run_id}: to delete {request.objects:,} objects ({request.size_bytes:,} bytes) of"
        f" {run.plan.repository} was approved by {said.by}, {said.at:%Y-%m-%d %H:%M:%S} UTC. It must begin to delete"
        f" before {request.expires_at(said.at):%Y-%m-%d %H:%M:%S} UTC."
    )
    if steps.is_local(run):
        click.echo(f"Go on with: dredge gc resume {uri}")
    else:
        click.echo(_in_airflow(run))


@click.command("reject")
@click.argument("uri", metavar="RUN")
@_BY
def reject_command(uri: str, by: str | None) -> None:
    """Reject what a run would delete. It wins against every approval, and stops a sweep that has begun.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it. A rejected run stays rejected; a new one asks
    again.

    \b
    Exit codes: 0 rejected · 2 bad input · 3 the run asks nobody · 4 the store is not available
    """
    from dredge.gc import steps
    from dredge.gc.approve.records import COMMAND

    run = _open(uri)
    found = steps.answer(run, "rejected", by or _user(), COMMAND)
    assert found.rejected is not None
    click.echo(
        f"run {run.plan.run_id} was rejected by {found.rejected.by}, {found.rejected.at:%Y-%m-%d %H:%M:%S} UTC."
    )
    if not steps.is_local(run):
        click.echo(_in_airflow(run))


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
    """Go on with a run of `dredge gc run` from what is complete: after its approval, or after a step failed.

    Servers and stores are found as by `dredge gc run`.

    \b
    Exit codes: those of `dredge gc run`
    """
    from dredge.commands.gc import show_outcome
    from dredge.gc.resuming import reopen_run
    from dredge.runs.tasks import LocalRunner

    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with LocalRunner(processes) as runner:
        show_outcome(reopen_run(uri.rstrip("/")), runner, as_json)


def _open(uri: str) -> Run:
    from dredge.gc.run import Run

    return Run.open(uri.rstrip("/"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise click.UsageError("this machine does not say who you are: give --by NAME") from None


def _in_airflow(run: Run) -> str:
    return (
        f"The run waits in Airflow ({run.plan.lease.holder}). Its task approve takes the answer when somebody clears it"
        " there, answers there, or its time is over."
    )
