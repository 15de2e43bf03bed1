"""`approve` and `reject` of a collector's commands: what a person says about a run that waits."""

from __future__ import annotations

import getpass
import json
from importlib import import_module
from typing import Any

import click

from dredge.commands import airflow_answer
from dredge.errors import DredgeError, NotFoundError

_APPROVE = """Approve the candidates of a waiting run. RUN is the URI of its folder, as `{command} runs` shows it.

The approval applies to exactly these candidates, for a limited time. Meanwhile a local run holds other runs back.
Folder and report contain person and time. `{command} report RUN` lists the candidates.

With DREDGE_AIRFLOW_URL and DREDGE_AIRFLOW_TOKEN (a token of its API) a run that waits in Airflow is answered there:
it continues at once, and the token's user has approved it. A run with approvers can only be approved this way.

\b
Examples:
  {command} approve {example} --by ann

\b
Exit codes: 0 approved · 2 bad input · 3 the run has no question, was rejected, or cannot be approved (any more),
              or another run has completed since or is in progress: `{command} resume` would refuse it
            4 the store is not available
"""
_REJECT = """Reject a run. A rejection overrides every approval, and stops a sweep in progress.

RUN is the URI of the run's folder, as `{command} runs` shows it. A rejected run stays rejected; a new one asks
again.

\b
Examples:
  {command} reject {example}

\b
Exit codes: 0 rejected · 2 bad input · 3 the run has no question · 4 the store is not available
"""


def answer_commands(group: str, example: str, steps: str) -> tuple[click.Command, click.Command]:
    """Make the commands that answer for runs of a collector.

    Args:
        group: the collector's commands, such as "gc".
        example: URI of a run's folder.
        steps: module with the steps of the collector; loaded for an answer.

    Returns:
        `approve` and `reject`.
    """
    words = {"command": f"dredge {group}", "example": example}

    @click.command("approve", help=_APPROVE.format(**words))
    @_options
    def approve_command(uri: str, by: str | None, as_json: bool) -> None:
        _approve(f"dredge {group}", import_module(steps), uri.rstrip("/"), by, as_json)

    @click.command("reject", help=_REJECT.format(**words))
    @_options
    def reject_command(uri: str, by: str | None, as_json: bool) -> None:
        _reject(f"dredge {group}", import_module(steps), uri.rstrip("/"), by, as_json)

    return approve_command, reject_command


def _options(function: Any) -> Any:
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="The answer as one JSON object."),
        click.option("--by", metavar="NAME", help="Who says so. Default: the user who runs the command."),
        click.argument("uri", metavar="RUN"),
    ):
        function = decorate(function)
    return function


def _approve(command: str, steps: Any, uri: str, by: str | None, as_json: bool) -> None:
    run = steps.Run.open(uri)
    plan = run.plan
    if _answers_in_airflow(steps, run):
        airflow_answer.answer_in_airflow(plan.lease.holder, "Approve")
        text = f"run {plan.run_id}: Airflow has the answer, and continues with {plan.lease.holder}."
        _tell(text, as_json, run_id=plan.run_id, answer="approved", where="airflow")
        return
    if steps.is_local(run):
        steps.check_resumable(run)  # an approved run must be able to continue
    found = steps.answer(run, "approved", by or _user(), command)
    request, said = found.request, found.approved
    expires_at = request.expires_at(said.at)
    if steps.is_local(run):
        from dredge.approve.step import keep_lease

        keep_lease(run, expires_at, take_back=True)
    _tell(
        f"run {plan.run_id}: to delete {request.objects:,} objects ({request.size_bytes:,} bytes) of"
        f" {plan.repository} was approved by {said.by}, {said.at:%Y-%m-%d %H:%M:%S} UTC. It must begin to delete"
        f" before {expires_at:%Y-%m-%d %H:%M:%S} UTC.",
        as_json,
        run_id=plan.run_id,
        answer="approved",
        where="run folder",
        by=said.by,
        at=said.at.isoformat(),
        expires_at=expires_at.isoformat(),
        objects=request.objects,
        size_bytes=request.size_bytes,
    )
    if not as_json:
        click.echo(f"Go on with: {command} resume {uri}" if steps.is_local(run) else _in_airflow(run))


def _reject(command: str, steps: Any, uri: str, by: str | None, as_json: bool) -> None:
    run = steps.Run.open(uri)
    found = steps.answer(run, "rejected", by or _user(), command)
    said = found.rejected
    if steps.is_local(run) and found.approved is None:  # otherwise a sweep may be using it
        run.lease.release(run.plan.lease)
    _tell(
        f"run {run.plan.run_id} was rejected by {said.by}, {said.at:%Y-%m-%d %H:%M:%S} UTC.",
        as_json,
        run_id=run.plan.run_id,
        answer="rejected",
        where="run folder",
        by=said.by,
        at=said.at.isoformat(),
    )
    if _answers_in_airflow(steps, run):
        _end_in_airflow(run, was_approved=found.approved is not None)
    elif not steps.is_local(run) and not as_json:
        click.echo(_in_airflow(run))


def _tell(text: str, as_json: bool, **facts: Any) -> None:
    """Say it to a person or to a program."""
    click.echo(json.dumps(facts) if as_json else text)


def _answers_in_airflow(steps: Any, run: Any) -> bool:
    return not steps.is_local(run) and airflow_answer.is_named()


def _end_in_airflow(run: Any, was_approved: bool) -> None:
    """Tell Airflow; the rejection is valid without that. If its run was removed, only this releases the lease."""
    try:
        airflow_answer.answer_in_airflow(run.plan.lease.holder, "Reject")
    except NotFoundError as error:
        click.echo(f"{error} The run is rejected anyway.", err=True)
        if not was_approved:
            run.lease.release(run.plan.lease)
            click.echo("Its lease was released: the next run of the repository can start.", err=True)
    except DredgeError as error:
        click.echo(f"Airflow could not be notified: {error} The run is rejected anyway.", err=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise click.UsageError("the login name is unknown: give --by NAME") from None


def _in_airflow(run: Any) -> str:
    return (
        f"The run waits in Airflow ({run.plan.lease.holder}). Its task approve reads the answer when it is cleared,"
        f" answered there, or out of time. With {airflow_answer.URL} and {airflow_answer.TOKEN} this command wakes it."
    )
