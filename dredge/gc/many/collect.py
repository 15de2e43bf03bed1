"""Collects repositories in this process, without an orchestrator, and reads the outcome of each run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from dredge.errors import DredgeError
from dredge.gc import steps
from dredge.gc.config import GCConfig
from dredge.lakefs import LakeFS
from dredge.runs.clock import Clock, utc_now
from dredge.runs.failures import foreseen
from dredge.runs.report import Outcome, lost, reported
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions
from dredge.storage.parallel import ordered_map


def outcome_of(
    repository: str, run_uri: str, why: str = "", options: StorageOptions | None = None
) -> Outcome:
    """The outcome of a repository's run, from its report, or else from the known error."""
    if not run_uri:
        return lost(repository, why)
    try:
        report = steps.read_report(steps.Run.open(run_uri, options))
    except DredgeError as error:
        return lost(repository, why or str(error), run_uri)
    counts = report["counts"]
    found, deleted = (
        (counts.get(f"{what}_objects", 0), counts.get(f"{what}_bytes", 0))
        for what in ("deletable", "deleted")
    )
    return reported(repository, run_uri, report, found, deleted)


log = logging.getLogger("dredge")


def collect_each(
    repositories: Sequence[str],
    config_of: Callable[[str], GCConfig],
    runner: TaskRunner,
    client: LakeFS,
    at_once: int = 1,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[Outcome]:
    """Collect repositories, each with its own lease, plan and report; yield the outcomes in the order of the names. A
    failed run stops no other run."""
    return ordered_map(
        lambda name: _collect(name, config_of, runner, client, options, clock), repositories, at_once
    )


def _collect(
    repository: str,
    config_of: Callable[[str], GCConfig],
    runner: TaskRunner,
    client: LakeFS,
    options: StorageOptions | None,
    clock: Clock,
) -> Outcome:
    run_uri = why = ""
    try:
        with foreseen(f"the run of {repository}"):
            run_uri = steps.plan_run(config_of(repository), None, client, options, clock).run_uri
            run = steps.Run.open(run_uri, options, client, clock)
            steps.to_its_end(run, runner)
    except DredgeError as error:
        why = str(error)
        log.error("%s: %s", repository, why)
    return outcome_of(repository, run_uri, why, options)
