"""Statements of a person by command: `approve`, `reject` and `forget-variable` of each collector."""

from __future__ import annotations

import getpass
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click

from dredge.commands.printing import BY, JSON, REASON, json_option
from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter

URL, TOKEN = "DREDGE_AIRFLOW_URL", "DREDGE_AIRFLOW_TOKEN"
_TIMEOUT_SECONDS = 30
_RUN = click.argument("uri", metavar="RUN")
_BY = click.option("--by", metavar="NAME", help="Your name.  [default: the user who runs the command]")
_ANSWER_JSON = json_option("The answer as one JSON object.")
_APPROVE = """Approve the candidates of a waiting run. RUN is the URI of its folder, as `{command} runs` shows it.

The approval applies to exactly these candidates, for a limited time. Until then a local run blocks other runs. The
run's folder and its report keep your name and the time. `{command} report RUN` lists the candidates.

With DREDGE_AIRFLOW_URL and DREDGE_AIRFLOW_TOKEN (a token of its API) a run that waits in Airflow is answered there:
it continues at once, and the token's user has approved it. A run with approvers can only be approved this way.

\b
Examples:
  {command} approve {example} --by ann

\b
Exit codes: 0 approved · 2 bad input · 3 the run awaits no approval, was rejected, or cannot be approved (any more),
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
Exit codes: 0 rejected · 2 bad input · 3 the run awaits no approval · 4 the store is not available
"""


def answer_commands(group: str, example: str, steps: str) -> tuple[click.Command, click.Command]:
    """Make `approve` and `reject` of a collector."""
    words = {"command": f"dredge {group}", "example": example}

    @click.command("approve", help=_APPROVE.format(**words))
    @_RUN
    @_BY
    @_ANSWER_JSON
    def approve_command(uri: str, by: str | None, as_json: bool) -> None:
        _approve(f"dredge {group}", import_module(steps), uri.rstrip("/"), by, as_json)

    @click.command("reject", help=_REJECT.format(**words))
    @_RUN
    @_BY
    @_ANSWER_JSON
    def reject_command(uri: str, by: str | None, as_json: bool) -> None:
        _reject(f"dredge {group}", import_module(steps), uri.rstrip("/"), by, as_json)

    return approve_command, reject_command


def _approve(command: str, steps: Any, uri: str, by: str | None, as_json: bool) -> None:
    run = steps.Run.open(uri)
    plan = run.plan
    if _answers_in_airflow(steps, run):
        answer_in_airflow(plan.lease.holder, "Approve")
        text = f"run {plan.run_id}: Airflow has recorded the answer, and continues {plan.lease.holder}."
        _print(text, as_json, run_id=plan.run_id, answer="approved", where="airflow")
        return
    if steps.is_local(run):
        steps.check_resumable(run)  # an approved run must be able to continue
    found = steps.answer(run, "approved", by or _user(), command)
    request, said = found.request, found.approved
    expires_at = request.expires_at(said.at)
    if steps.is_local(run):
        from dredge.approve.step import keep_lease

        keep_lease(run, expires_at, take_back=True)
    _print(
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
        click.echo(f"Continue with: {command} resume {uri}" if steps.is_local(run) else _in_airflow(run))


def _reject(command: str, steps: Any, uri: str, by: str | None, as_json: bool) -> None:
    run = steps.Run.open(uri)
    found = steps.answer(run, "rejected", by or _user(), command)
    said = found.rejected
    if steps.is_local(run) and found.approved is None:  # otherwise a sweep may be using it
        run.lease.release(run.plan.lease)
    _print(
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


def _print(text: str, as_json: bool, **facts: Any) -> None:
    click.echo(json.dumps(facts) if as_json else text)


def _answers_in_airflow(steps: Any, run: Any) -> bool:
    return not steps.is_local(run) and is_configured()


def _end_in_airflow(run: Any, was_approved: bool) -> None:
    # The rejection is valid without Airflow. If the DAG run was deleted, only this command can release the lease.
    try:
        answer_in_airflow(run.plan.lease.holder, "Reject")
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
        f"The run waits in Airflow ({run.plan.lease.holder}). Its task approve reads the answer after you clear it,"
        f" answer it there, or its time is over. With {URL} and {TOKEN} this command continues it at once."
    )


def is_configured() -> bool:
    """Whether the environment names an Airflow."""
    return bool(os.environ.get(URL))


def answer_in_airflow(holder: str, option: str) -> None:
    """Answer the task `approve` of a DAG run by Airflow's API: the run continues at once, and Airflow records the user.
    `holder`: holder of the run's lease: DAG and id of the DAG run."""
    dag_id, _, run_id = holder.partition(" ")
    url = os.environ.get(URL, "").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{URL} is not the address of an Airflow, such as https://airflow.example.com")
    path = (
        f"/api/v2/dags/{quote(dag_id, '')}/dagRuns/{quote(run_id, '')}/taskInstances/approve/-1/hitlDetails"
    )
    request = urllib.request.Request(
        url + path,
        data=json.dumps({"chosen_options": [option]}).encode(),
        method="PATCH",
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get(TOKEN, '')}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise _error(error.code, holder, url) from None
    except (urllib.error.URLError, TimeoutError) as error:
        raise UnavailableError(
            f"Airflow at {url} does not answer: {error}. Nothing was answered there."
        ) from None


def _error(status: int, holder: str, url: str) -> Exception:
    match status:
        case 401:
            return ConfigError(f"Airflow at {url} refuses the token in {TOKEN}. Nothing was answered.")
        case 403:
            return RefusedError(
                f"Airflow at {url} does not let you answer for {holder}. Nothing was answered."
            )
        case 404:
            return NotFoundError(f"{holder} awaits no answer in Airflow at {url}. Nothing was answered.")
        case 409:
            return RefusedError(
                f"{holder} has been answered in Airflow at {url}; the first answer is valid there."
            )
    return UnavailableError(f"Airflow at {url} answered {status}. Nothing was answered there.")


def forget_variable_command(
    group: str, metavar: str, example: str, open_state: Callable[[str], ObjectWriter]
) -> click.Command:
    """Make `forget-variable` of a collector."""

    @click.command(
        "forget-variable",
        help=f"""Confirm that an Airflow Variable that bound the runs of {metavar} was removed on purpose.

        A run stops if a Variable is missing that limited an earlier run (dredge_policy, or the schedules): Airflow
        cannot tell a removed Variable from a secrets backend that does not answer.

        \b
        Example:
          dredge {group} forget-variable {example} dredge_policy --reason "limits are Params of the DAG now"

        \b
        Exit codes: 0 confirmed, or no run was bound by it · 2 bad input · 4 the server or the store is not available
                    5 a record cannot be read · 6 no such repository
        """,
    )
    @click.argument("subject", metavar=metavar)
    @click.argument("name")
    @REASON
    @BY
    @JSON
    def forget_variable(subject: str, name: str, reason: str, by: str | None, as_json: bool) -> None:
        from dredge.runs import consents

        said = consents.forget_variable(open_state(subject), subject, name, reason, by)
        if as_json:
            click.echo(json.dumps({"confirmed": said is not None, "statement": said and to_json(said)}))
        elif said is None:
            click.echo(f"no run of {subject} was bound by the Variable {name}")
        else:
            click.echo(f"confirmed: runs of {subject} continue without the Variable {name}")

    return forget_variable
