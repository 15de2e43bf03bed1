"""Earlier runs of the same repository, and runs of other collectors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import PLAN, RUNS, Plan, Run, parse_plan
from dredge.gc.state import open_base
from dredge.runs.folder import RunFolder, is_run_id, read_json, run_ids
from dredge.runs.summary import StepOutput
from dredge.storage import open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

log = logging.getLogger("dredge")

_FIRST, _AT_ONCE = 3, 16


def previous[O: StepOutput](run: Run, output: type[O]) -> O | None:
    """The output of a step in the newest earlier run with it; None without such a run."""
    for folder, plan in earlier_runs(run):
        if plan is None:
            continue
        try:
            found = output.find(folder)
        except UnavailableError:
            raise
        except DredgeError:
            continue
        if found is not None:
            return found
    return None


def earlier_runs(run: Run) -> Iterator[tuple[RunFolder, Plan | None]]:
    """Yield the runs of this repository planned before this one, newest first, dry and failed runs too; the plan is
    None if it is unreadable, and then the repository is unknown.

    They may be beside this run, in the repository's own place, or beside the run before. Many repositories may share
    a run root, so plans are read as long as the caller asks for more.
    """
    there = [(run_id, root) for root in _roots(run) for run_id in run_ids(open_writer(root, run.options))]
    older = sorted(item for item in there if item[0] > run.plan.run_id)

    def opened(item: tuple[str, str]) -> tuple[RunFolder, Plan | None] | None:
        return _opened(run, *item)

    # The first runs are usually enough.
    of_all = chain(map(opened, older[:_FIRST]), ordered_map(opened, older[_FIRST:], _AT_ONCE))
    yield from (found for found in of_all if found is not None)


def _roots(run: Run) -> list[str]:
    plan = run.plan
    uris = [plan.run_uri.rpartition("/")[0], f"{plan.namespace.rstrip('/')}/{RUNS}"]
    if plan.state is not None:
        try:
            uris.append(open_base(run, plan.state).state.run_uri.rpartition("/")[0])
        except FormatError as error:
            log.info("run %s: the place of the run before cannot be read: %s", plan.run_id, error)
    return list({canonical_namespace(uri): uri for uri in reversed(uris)}.values())


def _opened(run: Run, run_id: str, root: str) -> tuple[RunFolder, Plan | None] | None:
    writer = open_writer(f"{root}/{run_id}", run.options)
    folder = RunFolder(writer, run_id)
    try:
        plan = parse_plan(read_json(writer, PLAN))
    except NotFoundError:
        return None  # another collector's
    except (ConfigError, FormatError) as error:
        log.info("run %s: the plan of run %s cannot be read: %s", run.plan.run_id, run_id, error)
        return folder, None
    ours = plan.repository == run.plan.repository and canonical_namespace(
        plan.namespace
    ) == canonical_namespace(run.plan.namespace)
    return (folder, plan) if ours else None


def foreign_runs(run: Run) -> list[str]:
    """Ids of the runs of lakeFS's own collector since this run was planned. They are in the same folder, without a
    plan."""
    found = []
    for folder in run.reader.list_level(f"{RUNS}/").folders:
        run_id = folder.rstrip("/").rpartition("/")[2]
        if run_id == run.plan.run_id or not is_run_id(run_id):
            continue
        if descending_time(run_id) < run.plan.created_at.replace(microsecond=0):
            continue
        if f"{folder}{PLAN}" not in {info.key for info in run.reader.list_level(folder).objects}:
            found.append(run_id)
    return sorted(found)
