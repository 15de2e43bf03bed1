"""The pending list of a repository: what was found, and waits for another run.

planning          is the list usable? else the run is a clean one     find_list
list_candidates   the list after this mark, and what has waited       list_candidates.waiting
check_limits      the list is left for the next run                   leave_list
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.judging import FORGET_LOST
from dredge.runs.consents import read_consents
from dredge.runs.pending import store
from dredge.runs.steps import StepRecord
from dredge.storage import ObjectReader


def find_list(state: ObjectReader, uri: str, now: datetime, life: str = "") -> store.Stored:
    """Read the list of a repository, and see whether a run may believe it.

    Args:
        state: on the folder of lease and index.
        uri: the repository.
        now: the store's time.
        life: id and time of its root snapshot; "" where nobody has looked yet.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
    """
    said = max((consent.at for consent in read_consents(state, FORGET_LOST)), default=None)
    why = "a person accepted what the witnesses refused since"
    return store.read_list(
        state, store.Expected(subject=uri.rstrip("/"), life=life, valid_from=said, why=why), now
    )


def leave_list(run: Run, record: StepRecord) -> None:
    """Leave the list after a complete mark.

    Args:
        run: whose mark it is; it holds the lease.
        record: of check_limits.

    Raises:
        ConflictError: another run has left its list since.
        OvertakenError: a later try of the step was begun.
    """
    pending, etag = record.input(ListCandidatesOutput).pending_list
    if pending is None:
        return
    now = run.store_now()
    record.attempt.check()
    run.lease.check(run.plan.lease, now)
    store.leave_list(run.state, replace(pending, left_at=now), etag)
