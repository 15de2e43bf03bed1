"""Two drivers of one run in one process: one is an orphan, asleep in the middle of a step while the step is retried
elsewhere, and continues afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from dredge.runs.folder import RunFolder
from dredge.runs.payload import Json
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner, TaskFunction
from dredge.runs.tries import StepTry

type Moment = Literal["before its work", "before its summary"]
MOMENTS: tuple[Moment, ...] = ("before its work", "before its summary")


def sleep_once(folder: RunFolder, moment: Moment, meanwhile: Callable[[], object]) -> None:
    """Let the driver of a folder sleep once in its next step; `meanwhile` runs then."""
    writing, write_summary = folder.writing, folder.write_summary
    left = [meanwhile]

    def slept() -> None:
        if left:
            left.pop()()

    @contextmanager
    def late_writing(attempt: StepTry) -> Iterator[None]:
        slept()
        with writing(attempt):
            yield

    def late_summary(summary: StepSummary) -> None:
        slept()
        write_summary(summary)

    # The number is claimed before the work, so a sleeper has an earlier one than all later tries.
    held: dict[Moment, tuple[str, Callable[..., AbstractContextManager[None] | None]]] = {
        "before its work": ("writing", late_writing),
        "before its summary": ("write_summary", late_summary),
    }
    setattr(folder, *held[moment])


class Recorder(LocalRunner):
    """Runs tasks, and can run them all once more: an abandoned worker."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[TaskFunction, Json, Json]] = []

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        self.calls += [(fn, config, task) for task in tasks]
        return super().run(name, fn, config, tasks)

    def again(self) -> list[Any]:
        """Run every task again; returns results, and the errors."""
        found: list[Any] = []
        for fn, config, task in self.calls:
            try:
                found.append(fn(config, task))
            except Exception as error:
                found.append(error)
        return found


def unchanged(before: dict[str, bytes], after: dict[str, bytes], *but: str) -> list[str]:
    """Names of missing or changed files, except those with some text."""
    names = [name for name, data in before.items() if after.get(name) != data]
    return [name for name in names if not any(text in name for text in but)]
