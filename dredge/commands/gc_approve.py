"""`dredge gc approve` and `dredge gc reject`: what a person says about a run that waits."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any

import click

from dredge.commands import airflow_answer
from dredge.errors import DredgeError

if TYPE_CHECKING:
    from dredge.gc.run import Run

_BY = click.option("--by", metavar="NAME", help="Who says so. Default: the user who runs the command.")


_JSON = click.option("--json", "as_json", is_flag=True, help="The answer as one JSON object.")


@click.command("approve")
@click.argument("uri", metavar="RUN")
@_BY
@_JSON
def approve_command(uri: str, by: str | None, as_json: bool) -> None:
    """Approve what a waiting run would delete. RUN is the URI of its folder, as `dredge gc runs` shows it.

    The approval holds for these very candidates and for a limited time. Who gave it, and when, stands in the folder and
    in the report. `dredge gc report RUN` shows what would go.

    A run that waits in Airflow is answered there when DREDGE_AIRFLOW_URL and DREDGE_AIRFLOW_TOKEN (a token of its API)
    say how: it goes on at once, and the token's user has approved it. A run with approvers can only be approved so.

    \b
    Examples:
      dredge gc approve s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN --by ann

    \b
    Exit codes: 0 approved · 2 bad input · 3 the run asks nobody, was rejected, or cannot be approved (any more)
                4 the store is not available
    """
    from dredge.gc import steps
    from dredge.gc.approve import ApproveOutput

    run = _open(uri)
    if _answers_in_airflow(run):
        airflow_answer.answer_in_airflow(run.plan.lease.holder, "Approve")
        text = f"run {run.plan.run_id}: Airflow has the answer, and goes on with {run.plan.lease.holder}."
        _tell(text, as_json, run_id=run.plan.run_id, answer="approved", where="airflow")
        return
    found = steps.answer(run, "approved", by or _user(), ApproveOutput.COMMAND)
    assert found.approved is not None
    request, said = found.request, found.approved
    _tell(
        f"run {run.plan.run_id}: to delete {request.objects:,} objects ({request.size_bytes:,} bytes) of"
        f" {run.plan.repository} was approved by {said.by}, {said.at:%Y-%m-%d %H:%M:%S} UTC. It must begin to delete"
        f" before {request.expires_at(said.at):%Y-%m-%d %H:%M:%S} UTC.",
        as_json,
        run_id=run.plan.run_id,
        answer="approved",
        where="run folder",
        by=said.by,
        at=said.at.isoformat(),
        expires_at=request.expires_at(said.at).isoformat(),
        objects=request.objects,
        size_bytes=request.size_bytes,
    )
    if as_json:
        return
    if steps.is_local(run):
        click.echo(f"Go on with: dredge gc resume {uri}")
    else:
        click.echo(_in_airflow(run))


@click.command("reject")
@click.argument("uri", metavar="RUN")
@_BY
@_JSON
def reject_command(uri: str, by: str | None, as_json: bool) -> None:
    """Reject what a run would delete. It wins against every approval, and stops a sweep that has begun.

    RUN is the URI of the run's folder, as `dredge gc runs` shows it. A rejected run stays rejected; a new one asks
    again.

    \b
    Examples:
      dredge gc reject s3://bucket/my-repo/_lakefs/retention/gc/unified/RUN

    \b
    Exit codes: 0 rejected · 2 bad input · 3 the run asks nobody · 4 the store is not available
    """
    from dredge.gc import steps
    from dredge.gc.approve import ApproveOutput

    run = _open(uri)
    found = steps.answer(run, "rejected", by or _user(), ApproveOutput.COMMAND)
    assert found.rejected is not None
    _tell(
        f"run {run.plan.run_id} was rejected by {found.rejected.by}, {found.rejected.at:%Y-%m-%d %H:%M:%S} UTC.",
        as_json,
        run_id=run.plan.run_id,
        answer="rejected",
        where="run folder",
        by=found.rejected.by,
        at=found.rejected.at.isoformat(),
    )
    if _answers_in_airflow(run):
        _end_in_airflow(run)
    elif not steps.is_local(run) and not as_json:
        click.echo(_in_airflow(run))


def _tell(text: str, as_json: bool, **facts: Any) -> None:
    """Say it to a person or to a program."""
    click.echo(json.dumps(facts) if as_json else text)


def _answers_in_airflow(run: Run) -> bool:
    from dredge.gc import steps

    return not steps.is_local(run) and airflow_answer.is_named()


def _end_in_airflow(run: Run) -> None:
    """Have Airflow notice; the no counts without that."""
    try:
        airflow_answer.answer_in_airflow(run.plan.lease.holder, "Reject")
    except DredgeError as error:
        click.echo(f"Airflow was not told: {error} The run is rejected all the same.", err=True)


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
        f" there, answers there, or its time is over. With {airflow_answer.URL} and {airflow_answer.TOKEN} this command"
        " wakes it."
    )
