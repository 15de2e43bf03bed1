"""Errors that end the work: what is a defect, what was changed by then, and what is done afterwards all the same.

`ConfigError` promises that nothing was touched. Where it appears after deletions, because credentials may not delete
or expired half way, it becomes a `PartialError`: otherwise a person would repeat a finished half.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from dredge.errors import ConfigError, DefectError, DredgeError, PartialError, UnavailableError
from dredge.storage.redact import redact

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


NOT_ALLOWED = frozenset(
    {
        "AccessDenied",
        "AccessForbidden",
        "AllAccessDisabled",
        "Forbidden",
        "PermissionDenied",
        "forbidden",
        "insufficientPermissions",
        "403",
    }
)
"""Error codes by which stores say that credentials may not delete an object."""


def not_deleted(text: str, codes: Collection[str], deleted: int) -> DredgeError:
    """Choose the error for objects that could not be deleted.

    Args:
        text: sentences that say how many, such as which, and how many were deleted.
        codes: the store's error codes.
        deleted: how many objects the run has deleted, in this try and earlier ones.
    """
    if not codes or not NOT_ALLOWED.issuperset(codes):
        return UnavailableError(f"{text} Run the step again: only these are tried again.")
    family = PartialError if deleted else ConfigError
    return family(
        f"{text} The credentials may not delete them. Allow it, then run the step again: only these are"
        " tried again."
    )


def as_partial[E: DredgeError](error: E, changed: str) -> E | PartialError:
    """Give the error to end with after something was changed: one that promises that nothing was touched
    becomes a `PartialError`.

    Args:
        error: what ended the work.
        changed: a sentence about what was deleted or changed, "" when nothing was.
    """
    if not changed or not isinstance(error, ConfigError):
        return error
    return PartialError(f"{str(error).rstrip('. ')}. {changed}")


@contextmanager
def partial_after(changed: Callable[[], str]) -> Iterator[None]:
    """Within it, an error that promises that nothing was touched ends as one that says what was.

    Args:
        changed: a sentence about what was deleted or changed by now, "" when nothing was.

    Raises:
        PartialError: in place of ConfigError, when something was changed.
    """
    try:
        yield
    except ConfigError as error:
        found = as_partial(error, changed())
        if found is error:
            raise
        raise found from error


@contextmanager
def closing_with(end: Callable[[], object], what: str) -> Iterator[None]:
    """Do something at the end of a block, also where the block failed: then the error of the block is raised, and one
    of the end is logged.

    Args:
        end: what to do.
        what: its name, for the log.
    """
    try:
        yield
    except BaseException:
        try_to(end, what)
        raise
    end()


def try_to(end: Callable[[], object], what: str) -> None:
    """Do something after an error that ended the work; an error of its own is logged.

    Args:
        end: what to do.
        what: its name, for the log.
    """
    try:
        end()
    except DredgeError as later:
        log.warning("%s failed as well, after the error that ended the work: %s", what, later)
    except Exception:
        log.exception("%s failed as well, after the error that ended the work", what)
