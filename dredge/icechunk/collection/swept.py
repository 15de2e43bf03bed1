"""A run that deleted, opened for those who bring back or compare what it deleted."""

from __future__ import annotations

from dredge.errors import ConfigError
from dredge.icechunk.collection.kinds import FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.plan import read_plan
from dredge.runs.folder import RunFolder
from dredge.storage import StorageOptions, open_writer
from dredge.undo.deleted import SweptRun


def open_swept(run_uri: str, uri: str, options: StorageOptions | None = None) -> SweptRun:
    """Open a run that deleted.

    Args:
        run_uri: URI of its folder.
        uri: the repository whose run it must be.
        options: None reads the environment.

    Raises:
        ConfigError: there is no such run, it deleted nothing, or it is of another repository.
        FormatError: its files are damaged.
    """
    plan = read_plan(run_uri, options)
    if plan.uri.rstrip("/") != uri.rstrip("/"):
        raise ConfigError(f"run {plan.run_id} is of {plan.uri}, not of {uri}. Nothing was done.")
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    summary = None if plan.config.dry_run else folder.read_summary(ListCandidatesOutput.STEP)
    if summary is None:
        why = "it was a dry run" if plan.config.dry_run else "it never came to its candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    output = ListCandidatesOutput.of(summary)
    parts = [part for kind in reversed(FOLDERS) for part in output.candidates(kind)]
    return SweptRun(plan.undo.way, folder, parts, tuple(FOLDERS.values()))
