"""What stops a change: a hook that failed, or an action file that cannot be used.

Source: lakeFS pkg/graveler/errors.go (HookAbortError), pkg/actions/errors.go; the texts are those of a real server.
"""

from __future__ import annotations

from collections.abc import Sequence

from dredge.errors import ConflictError, DredgeError, RefusedError
from dredge.graveler.errors import GravelerError


class HookAbortedError(GravelerError, ConflictError):
    """A hook that must approve a change failed; nothing was changed."""

    status = 412
    default = "action failed"


class ActionFileError(GravelerError, RefusedError):
    """An action file cannot be read, or asks for something that is not possible; nothing was changed.

    A real server answers 500, as it does to every mistake in an action file.
    """

    status = 500
    default = "invalid action"


class HookError(DredgeError):
    """A hook failed, or could not be run.

    Args:
        message: why.
        failed: it began to run and failed; False if it could not even begin, for a mistake in its definition.
    """

    def __init__(self, message: str, *, failed: bool = True) -> None:
        super().__init__(message)
        self.failed = failed


def aborted(problems: Sequence[HookError]) -> HookAbortedError | ActionFileError:
    """Make one error of those of several actions: 412 as soon as one of them is a hook's failure."""
    count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    lines = "\n\t".join(f"* {problem}" for problem in problems)
    text = f"{count} occurred:\n\t{lines}\n\n"
    return HookAbortedError(text) if any(each.failed for each in problems) else ActionFileError(text)
