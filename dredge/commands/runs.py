"""Runs and their reports, as commands of the collectors show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

type Report = Callable[[str], dict[str, Any]]
"""Reads the report of a run by the URI of its folder."""
_CODES = {
    "failed": 1,
    "partial": 1,
    "awaiting_approval": 3,
    "rejected": 3,
    "refused": 3,
    "alarm": 10,
}
"""Exit codes by outcome."""


def rows_of_runs(
    uri: str, inside: str, limit: int, report: Report, deleted: Callable[[dict[str, Any]], int | None]
) -> list[dict[str, Any]]:
    """Give what there is to say of each run of a repository, the newest first.

    Args:
        uri: of the repository's place, or of a run root.
        inside: where runs lie in a repository.
        limit: newest runs; 0 is all.
        report: of a run.
        deleted: gives the deleted objects of a report; None where there are none to tell of.
    """
    from dredge.runs.folder import run_ids
    from dredge.storage import open_reader

    root = uri.rstrip("/")
    if not run_ids(open_reader(root)):
        root = f"{root}/{inside}"
    found = run_ids(open_reader(root))
    newest = found[:limit] if limit > 0 else found
    return [_row(f"{root}/{run_id}", run_id, report, deleted) for run_id in newest]


def _row(
    folder: str, run_id: str, report: Report, deleted: Callable[[dict[str, Any]], int | None]
) -> dict[str, Any]:
    from dredge.errors import ConfigError, FormatError
    from dredge.xid import descending_time

    row: dict[str, Any] = {"run_id": run_id, "folder": folder, "repository": "", "deleted_objects": None}
    row["pending_objects"] = row["pending_bytes"] = None
    try:
        found = report(folder)
    except (ConfigError, FormatError):
        # lakeFS's own collector writes its runs to the same place.
        started = descending_time(run_id).isoformat()
        return {**row, "started_at": started, "outcome": "other tool"}
    return {
        **row,
        "repository": found["repository"],
        "started_at": found["started_at"],
        "outcome": found["outcome"],
        "deleted_objects": deleted(found),
        **{name: found.get("counts", {}).get(name) for name in ("pending_objects", "pending_bytes")},
    }


def show_runs(
    rows: Sequence[Mapping[str, Any]], uri: str, as_json: bool, **more: Sequence[Mapping[str, Any]]
) -> None:
    """Show runs, a line each.

    Args:
        rows: as `rows_of_runs` gave them.
        uri: that was asked for.
        as_json: as one JSON object.
        more: further lists of the JSON object, by name.
    """
    if as_json:
        click.echo(json.dumps({"runs": rows, **more}))
        return
    from dredge.runs.rendering import size_text

    if not rows:
        click.echo(f"no runs below {uri}")
        return
    click.echo(
        f"{'RUN':<22}{'STARTED (UTC)':<21}{'REPOSITORY':<24}{'OUTCOME':<18}{'DELETED':>12}{'WAITING':>12}  FOLDER"
    )
    for row in rows:
        deleted = "" if row["deleted_objects"] is None else f"{row['deleted_objects']:,}"
        click.echo(
            f"{row['run_id']:<22}{row['started_at'][:19].replace('T', ' '):<21}{row['repository']:<24}"
            f"{row['outcome']:<18}{deleted:>12}{size_text(row['pending_bytes']):>12}  {row['folder']}"
        )


def exit_code_of(found: Mapping[str, Any]) -> int:
    """Give the exit code of a command that shows a report.

    Args:
        found: the report.
    """
    return _CODES.get(found["outcome"], 0)


def show_report(found: Mapping[str, Any], as_json: bool, run_uri: str = "") -> None:
    """Show a report.

    Args:
        found: the report.
        as_json: as one JSON object.
        run_uri: folder of the run, to be named at the end; "" names none.
    """
    from dredge.runs.report import table_lines

    if as_json:
        click.echo(json.dumps(found))
        return
    click.secho(f"{found['title']}: {found['outcome_text']}", bold=True)
    click.echo(found["headline"])
    if found["what_to_do"]:
        click.echo(f"What to do: {found['what_to_do']}")
    click.echo()
    width = max((len(name) for name, _ in found["facts"]), default=0) + 2
    for name, value in found["facts"]:
        click.echo(f"{name + ':':<{width}}{value}")
    click.echo()
    for line in table_lines(found["rows"]):
        click.echo(line)
    _show_problems(found)
    click.echo()
    for step in found["steps"]:
        click.echo(f"{step['step']:<20}{step['status']:<10}{step['seconds']:>9}  {step['figures']}")
    if run_uri:
        click.echo(f"\nrun {run_uri}")


def _show_problems(found: Mapping[str, Any]) -> None:
    for problem in found["problems"]:
        click.secho(f"! {problem}", fg="red")
    for warning in found["warnings"]:
        click.secho(f"* {warning}", fg="yellow")
    for item in found["findings"]:
        if item["verdict"] != "passed":
            click.secho(f"{item['verdict']}: {item['rule']}: {item['text']}", fg="red")
