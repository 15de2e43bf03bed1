"""Reads the report of a run from its folder, whatever became of the run and whichever version began it."""

from __future__ import annotations

from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.plan import FORMAT, PLAN, Plan
from dredge.gc.save_report.report import REPORT, build_report
from dredge.runs.folder import RunFolder, read_json
from dredge.storage import StorageOptions, open_writer


def read_report(run_uri: str, options: StorageOptions | None = None) -> dict[str, Any]:
    """Put the report of a run together as of now; also while the run goes on, and after it failed.

    Args:
        run_uri: URI of the run's folder.
        options: how to reach it; None reads the environment.

    Returns:
        As `build_report` says.

    Raises:
        ConfigError: the folder is not one of a run.
        FormatError: a file of it is damaged.
    """
    writer = open_writer(run_uri.rstrip("/"), options)
    try:
        value = read_json(writer, PLAN)
        plan = Plan.from_json(value)
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None
    folder = RunFolder(writer, plan.run_id)
    return build_report(folder, plan) if value["format"] == FORMAT else _of_older(folder, plan)


def _of_older(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """The report that an earlier version wrote at the end of its run; before that nobody can tell what it did."""
    try:
        found: dict[str, Any] = folder.read_json(REPORT)
    except NotFoundError:
        return {
            **build_report(folder, plan),
            "outcome": "unfinished",
            "outcome_text": "not finished by the version of Dredge that began it",
            "headline": "This version cannot tell what was deleted; files in the folder of the run do.",
            "what_to_do": "Start a new run.",
        }
    return found
