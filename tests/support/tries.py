"""Tries of the steps of a run: another driver of the same run, and earlier, repeated or skipped steps."""

from collections.abc import Callable

from dredge.gc.run import Run
from dredge.gc.save_report.advance_state import advance_state
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
    verify,
)
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import open_deleter
from tests.support.gc import World

type Step = Callable[[Run, TaskRunner], StepSummary]

STEPS: dict[str, Step] = {
    "slice_listing": slice_listing,
    "mark_uncommitted": mark_uncommitted,
    "list_committed": list_committed,
    "subtract": subtract,
    "check_limits": check_limits,
    "bulk_delete": bulk_delete,
    "verify": verify,
    "state": lambda context, _: advance_state(context),
}
HERE = LocalRunner()


def driver(world: World, context: Run) -> Run:
    return Run.open(context.plan.run_uri, None, world.client, world.lake.clock)


def come_to(context: Run, name: str, runner: TaskRunner = HERE) -> None:
    for before, step in STEPS.items():
        if before == name:
            return
        step(context, runner)


def undo(context: Run, *steps: str) -> None:
    open_deleter(context.folder.uri).delete([f"{step}/_SUCCESS.json" for step in steps])


def die() -> None:
    raise KeyboardInterrupt
