"""An exception that nobody foresaw is a defect of Dredge, and is reported as one."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dredge.errors import DefectError, DredgeError
from dredge.storage.https import redact

log = logging.getLogger("dredge")


class TaskDefect(Exception):
    """An unforeseen exception of a task, come back from where it ran.

    Args:
        what: class and message of the exception.
        places: where it came from, as `places` gave them there.
    """

    def __init__(self, what: str, places: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.places = list(places)


def places(error: BaseException) -> list[str]:
    """Where an exception came from, the outermost call first: no values, so no secrets."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, TaskDefect):
        frames += [f"task: {place}" for place in error.places]
    return [*frames, type(error).__name__]


@contextmanager
def foreseen(what: str, where: str = "") -> Iterator[None]:
    """Let only errors of `dredge.errors` out; any other becomes a `DefectError`, with the first one as cause.

    A machine that runs out of memory, and whoever asks to stop, pass as they are.

    Args:
        what: was being done, such as "step staged of run d4…".
        where: URI of the run's folder, which holds what to send; "" where there is none yet.

    Raises:
        DefectError: something else went wrong. Its traceback is in the log.
    """
    try:
        yield
    except (DredgeError, MemoryError):
        raise
    except Exception as error:
        log.exception("%s: an error that nobody foresaw", what)
        raise defect(what, error, where) from error


def defect(what: str, error: BaseException, where: str = "") -> DefectError:
    """Word an unforeseen error; see `foreseen`."""
    cause = f"{type(error).__name__}: {redact(str(error))}".rstrip(": ")
    files = f" and the .json files of {where}, which hold no secrets" if where else ""
    return DefectError(
        f"{what}: {cause}. Dredge did not foresee this, so it is a defect of Dredge. It ended there, and nothing"
        f" more was deleted. Running it again does no harm. Please report it with the log of the task{files}."
    )
