"""Reads the report of a run from its folder, whatever became of the run."""

from __future__ import annotations

from typing import Any

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.plan import PLAN, parse_plan
from dredge.gc.save_report.report import build_report
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
        FormatError: a file of it is damaged, or its plan is of another format.
    """
    writer = open_writer(run_uri.rstrip("/"), options)
    try:
        plan = parse_plan(read_json(writer, PLAN))
    except NotFoundError:
        raise ConfigError(f"{run_uri} holds no {PLAN}: it is not the folder of a run") from None
    return build_report(RunFolder(writer, plan.run_id), plan)
