"""Folders of old runs, which the end of a complete run removes.

    unified/<id>/           collections, with the restores of what they deleted
    dredge/purges/<id>/     purges: nothing reads what they did
    dredge/metadata/<id>/   runs about metadata; the newest stays: the next one may let go what it noted

Folders are removed only where a plan proves that they are runs of this repository in this namespace; those of
lakeFS's own collector, of other repositories, of unknown formats, and in a run root that a user named stay, and so do
those with copies of what was deleted, until they are purged, and those in which something is younger than asked for.
The plan is removed last, so that what an interrupted removal leaves is found again.
"""

from __future__ import annotations

from functools import partial

from dredge.errors import ConfigError, FormatError, NotFoundError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.plan import PLAN, parse_plan
from dredge.gc.run import Run
from dredge.gc.save_report.own_files import SIDE_RUNS
from dredge.runs.folder import read_json, run_ids
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.undo.old_folders import Place


def side_places(run: Run, reader: ObjectReader) -> list[Place]:
    """Where runs beside collections lie. Of each kind the newest stays.

    Args:
        run: at whose end files are removed.
        reader: on `own_files.ROOT`.
    """

    def place(name: str) -> Place:
        newest = run_ids(open_reader(f"{reader.uri}/{name}", run.options))[:1]
        return Place(name, set(newest), partial(_is_side_run_of, run))

    return list(ordered_map(place, SIDE_RUNS, len(SIDE_RUNS)))


def is_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """Whether a folder is proved by its plan to be of a run of this repository, in this namespace."""
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # another collector's, or of another version
    return (
        plan.run_id == run_id
        and plan.repository == run.plan.repository
        and canonical_namespace(plan.namespace) == canonical_namespace(run.plan.namespace)
        and canonical_namespace(plan.run_uri) == canonical_namespace(f"{runs.uri}/{run_id}")
    )


def _is_side_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """The same of a run beside collections."""
    try:
        plan = read_json(runs, f"{run_id}/{PLAN}")
        return (
            plan["run_id"] == run_id
            and plan["repository"] == run.plan.repository
            and canonical_namespace(plan["namespace"]) == canonical_namespace(run.plan.namespace)
        )
    except (ConfigError, FormatError, NotFoundError, AttributeError, KeyError, TypeError):
        return False
