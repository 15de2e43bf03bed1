"""Two drivers of one run in one process: one is an orphan, asleep in the middle of a step while the step is retried
elsewhere, and continues afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
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


def unchanged(before: dict[str, bytes], after: dict[str, bytes], *but: str) -> list[str]:
    """Names of missing or changed files, except those with some text."""
    names = [name for name, data in before.items() if after.get(name) != data]
    return [name for name in names if not any(text in name for text in but)]
