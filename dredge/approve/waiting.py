"""The lease of a run that waits for an answer: while its question is open, no other run works on the repository.

Another run would ask about the same objects, or move on the state that this one builds on: then nobody could go on
with the approved run. That is for order only. What makes a late sweep safe is its re-check and the greatest age of a
mark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Protocol

from dredge.approve.asking import AskingRun
from dredge.approve.records import Asked
from dredge.errors import AwaitingApprovalError, DredgeError
from dredge.runs.lease import Lease

log = logging.getLogger("dredge")


class LocalRun(AskingRun, Protocol):
    """A run that no orchestrator looks after."""

    @property
    def lease(self) -> Lease:
        """The repository's lease."""


def keep_lease(run: AskingRun, until: datetime, take_back: bool = False) -> None:
    """Prolong a run's lease.

    Args:
        run: this run.
        until: the store's time.
        take_back: also a lease that was given back.

    Raises:
        LeaseHeldError: another run has it.
    """
    wait = max(until - run.store_now(), timedelta(seconds=1))
    Lease(run.state, wait, run.store_now).renew(run.plan.lease, take_back=take_back)


@contextmanager
def given_back(run: LocalRun, find_question: Callable[[LocalRun], Asked]) -> Iterator[None]:
    """Give a local run's lease back at the end of some work; keep it while the run waits for an answer.

    Args:
        run: this run.
        find_question: of the collector; reads what the run asks.
    """
    try:
        yield
    except AwaitingApprovalError:
        try:
            keep_lease(run, find_question(run).request.answer_until)
        except DredgeError as error:
            log.warning("run %s waits, and does not hold others back: %s", run.plan.run_id, error)
        raise
    except BaseException:
        with suppress(DredgeError):  # it expires; the error of the work says what to do
            run.lease.release(run.plan.lease)
        raise
    run.lease.release(run.plan.lease)
