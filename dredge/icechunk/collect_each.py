"""Expire and collect many repositories in this process, without an orchestrator."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dredge.errors import DredgeError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import Run, plan_collection, to_its_end
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.expiration.config import Expiration, ExpireConfig
from dredge.icechunk.many import outcome_of
from dredge.runs.clock import Clock, utc_now
from dredge.runs.failures import foreseen
from dredge.runs.report import Outcome
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions
from dredge.storage.parallel import ordered_map


def collect_each(
    repositories: Sequence[str],
    expiration: ExpireConfig,
    config_of: Callable[[str], CollectConfig],
    runner: TaskRunner,
    at_once: int = 1,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Iterator[Outcome]:
    """Expire and collect repositories, each with its own lease, plan and report, and yield their outcomes in order. A
    failed run stops no other run.
    """
    planned = Expiration.from_config(expiration, clock())
    return ordered_map(
        lambda uri: _collect(config_of(uri), planned, runner, options, clock), repositories, at_once
    )


def _collect(
    config: CollectConfig,
    planned: Expiration,
    runner: TaskRunner,
    options: StorageOptions | None,
    clock: Clock,
) -> Outcome:
    run_uri = why = ""
    try:
        with foreseen(f"the run of {config.uri}"):
            if config.dry_run:
                config = replace(config, after=planned)
            else:
                expire(config.uri, planned, options=options)
            run_uri = plan_collection(config, None, options, clock).run_uri
            to_its_end(Run.open(run_uri, options, clock), runner)
    except DredgeError as error:
        why = str(error)
        logging.getLogger("dredge").error("%s: %s", config.uri, why)
    return outcome_of(config.uri, run_uri, why, options)
