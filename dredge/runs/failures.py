"""Errors at the end of a step: defects, deletions without permission, partial work, and cleanup after an error.

A `ConfigError` says that nothing was changed. If a step fails with one after it deleted objects, for example because
credentials expired, it becomes a `PartialError`.
"""

import logging
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from dredge.errors import ConfigError, DefectError, DredgeError, PartialError, UnavailableError
from dredge.storage.https import redact

log = logging.getLogger("dredge")


class TaskDefect(Exception):
    """An unexpected exception of a task in another process. `places`: result of `places` in that process."""

    def __init__(self, what: str, places: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.places = list(places)


def places(error: BaseException) -> list[str]:
    """Return the source lines of an exception, the outermost call first. Without values: they may be secrets."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, TaskDefect):
        frames += [f"task: {place}" for place in error.places]
    return [*frames, type(error).__name__]


@contextmanager
def as_defects(what: str, where: str = "") -> Iterator[None]:
    """Convert unexpected exceptions to `DefectError`; `DredgeError` and `MemoryError` pass. `what`: the work in
    progress, such as "step staged of run d4…". `where`: URI of the run's folder; "" if absent. Raises DefectError: an
    unexpected exception was raised. Its traceback is in the log."""
    try:
        yield
    except (DredgeError, MemoryError):
        raise
    except Exception as error:
        log.exception("%s: unexpected error", what)
        raise defect(what, error, where) from error


def defect(what: str, error: BaseException, where: str = "") -> DefectError:
    """Make the error for an unexpected exception; see `as_defects`."""
    cause = f"{type(error).__name__}: {redact(str(error))}".rstrip(": ")
    files = f" and the .json files of {where}, which hold no secrets" if where else ""
    return DefectError(
        f"{what}: {cause}. This is a defect of Dredge. The step stopped, and nothing more"
        f" was deleted. It can run again without risk. Please report it with the log of the task{files}."
    )


# Error codes of stores for credentials without permission to delete an object.
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


def not_deleted(text: str, codes: Collection[str], deleted: int) -> DredgeError:
    """Return the error for failed deletions. `text`: sentences with numbers and examples. `deleted`: deleted objects of
    this run, in all tries."""
    if not codes or not NOT_ALLOWED.issuperset(codes):
        return UnavailableError(f"{text} Run the step again: it tries only these.")
    family = PartialError if deleted else ConfigError
    return family(
        f"{text} Give the credentials the right to delete them, then run the step again: it tries only these."
    )


def as_partial[E: DredgeError](error: E, changed: str) -> E | PartialError:
    """Return `PartialError` for a `ConfigError` after changes, else the error itself. `changed` is a sentence about the
    changes; "" without changes."""
    if not changed or not isinstance(error, ConfigError):
        return error
    return PartialError(f"{str(error).rstrip('. ')}. {changed}")


@contextmanager
def partial_after(changed: Callable[[], str]) -> Iterator[None]:
    """Convert a `ConfigError` of the block to `PartialError` after changes. `changed`: returns a sentence about the
    changes; "" without changes. Raises PartialError if the block failed after changes."""
    try:
        yield
    except ConfigError as error:
        found = as_partial(error, changed())
        if found is error:
            raise
        raise found from error


@contextmanager
def closing_with(end: Callable[[], object], what: str) -> Iterator[None]:
    """Call `end` after a block, also after an error of the block. That error is raised, and an error of `end` is
    logged. `what`: name of `end`, for the log."""
    try:
        yield
    except BaseException:
        try_to(end, what)
        raise
    end()


def try_to(end: Callable[[], object], what: str) -> None:
    """Call `end` after an error, and log an error of `end`. `what`: see `closing_with`."""
    try:
        end()
    except DredgeError as later:
        log.warning("the step failed, and then %s failed too: %s", what, later)
    except Exception:
        log.exception("the step failed, and then %s failed too", what)
