"""Work that ended in the middle: something was deleted or changed, and the rest needs a person.

`ConfigError` promises that nothing was touched. Where it appears later, say because credentials may list and
read but not delete, or expired half way, the promise would be a lie that makes somebody repeat a finished half.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from dredge.errors import ConfigError, DredgeError, PartialError, UnavailableError

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
