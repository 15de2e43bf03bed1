"""What a run deleted, and may have: its candidates with what its ledger says became of each.

The raw ledger is read, which also a sweep that was killed leaves. A candidate without a row may have been deleted right
before the kill, so a restore looks at it as well; a purge does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError
from dredge.gc.namespaces import DATA
from dredge.gc.plan import RUNS, Plan
from dredge.gc.run import read_plan
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.storage import StorageOptions, open_writer

_COLUMNS = ["address", "size", "last_modified", "etag", "hash", "reason"]
_STAYED = (ledger.KEPT, ledger.NOT_ADDRESSABLE)


@dataclass(frozen=True, slots=True)
class SweptRun:
    """A run that deleted.

    Attributes:
        plan: its plan.
        folder: its folder; only read.
        candidates: what it might delete.
    """

    plan: Plan
    folder: RunFolder
    candidates: list[PartInfo]


def run_uri_of(run: str, namespace: str) -> str:
    """URI of a run's folder.

    Args:
        run: the URI, or the id of a run in the repository's own run root.
        namespace: of the repository.
    """
    return run.rstrip("/") if "://" in run else f"{namespace.rstrip('/')}/{RUNS}/{run}"


def open_swept(run_uri: str, options: StorageOptions | None = None) -> SweptRun:
    """Open a run that deleted.

    Args:
        run_uri: URI of its folder.
        options: None reads the environment.

    Raises:
        ConfigError: there is no such run, or it deleted nothing.
        FormatError: its files are damaged.
    """
    plan = read_plan(run_uri, options)
    folder = RunFolder(open_writer(run_uri, options), plan.run_id)
    summary = None if plan.dry_run else folder.read_summary(SubtractOutput.STEP)
    if summary is None:
        why = "it was a dry run" if plan.dry_run else "it never came to its candidates"
        raise ConfigError(f"run {plan.run_id} deleted nothing: {why}")
    return SweptRun(plan, folder, SubtractOutput.of(summary).candidates)


def swept_rows(folder: RunFolder, part: PartInfo) -> pa.Table:
    """The candidates of a part that are not known to have stayed.

    Args:
        folder: of the run that deleted.
        part: of its candidates.

    Returns:
        Rows with `address`, `size`, `last_modified`, `etag`, `hash`, `reason`; `outcome` (null where the ledger has
        nothing) and `version_id` (of the delete marker; null where there is none).

    Raises:
        FormatError: one lies where no run deletes.
    """
    rows = folder.read_part(part, _COLUMNS)
    if not pc.all(pc.starts_with(rows["address"], DATA), min_count=0).as_py():
        raise FormatError(f"{part.name} of {folder.uri} names an object outside {DATA}. Nothing was done.")
    found = ledger.best(ledger.read_raw(folder, ledger.stem_of(part)))
    places = pc.index_in(rows["address"], found["address"].combine_chunks())
    for name in ("outcome", "version_id"):
        rows = rows.append_column(name, found[name].take(places))
    stayed = pc.fill_null(pc.is_in(rows["outcome"], pa.array(_STAYED)), False)
    return rows.filter(pc.invert(stayed)).combine_chunks()
