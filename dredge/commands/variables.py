"""`dredge gc forget-variable`, `dredge icechunk forget-variable`, `dredge trash forget-variable`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from dredge.runs.payload import to_json

if TYPE_CHECKING:
    from dredge.storage import ObjectWriter


def forget_variable_command(
    group: str, metavar: str, example: str, open_state: Callable[[str], ObjectWriter]
) -> click.Command:
    """Return the command of a collector.

    Args:
        group: of commands, such as `gc`.
        metavar: of the argument that names the state's subject.
        example: of that argument.
        open_state: opens the state's folder.
    """

    @click.command(
        "forget-variable",
        help=f"""Confirm that an Airflow Variable that bound the runs of {metavar} was removed on purpose.

        A run stops where a Variable is missing that an earlier run was bound by (dredge_policy, or the schedules):
        Airflow cannot tell a removed Variable from a secrets backend that does not answer.

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
    @click.option("--reason", required=True, help="Why, in your words; kept with the state.")
    @click.option("--by", metavar="NAME", help="Your name.  [default: the login name]")
    @click.option("--json", "as_json", is_flag=True, help="One JSON object.")
    def forget_variable(subject: str, name: str, reason: str, by: str | None, as_json: bool) -> None:
        from dredge.runs import consents

        said = consents.forget_variable(open_state(subject), subject, name, reason, by)
        if as_json:
            click.echo(json.dumps({"confirmed": said is not None, "statement": said and to_json(said)}))
        elif said is None:
            click.echo(f"no run of {subject} was bound by the Variable {name}")
        else:
            click.echo(f"confirmed: runs of {subject} go on without the Variable {name}")

    return forget_variable
