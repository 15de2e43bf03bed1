"""The end of a piece of work, which is done whatever happened, and never hides why the work ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dredge.errors import DredgeError

log = logging.getLogger("dredge")


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
