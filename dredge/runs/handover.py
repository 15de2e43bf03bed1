"""A run that was planned under one lease goes on under a later one of the same holder.

Clearing the tasks of a run in the scheduler takes the lease again, and with it a new fencing number. Later steps
read their right from the stored plan, so the new one has to get there. The task that brings it may itself have been
lost and started again: a late, older try must never put its lower number back over a higher one, because every step
of the run would then end with "the lease is lost". So the plan is replaced by conditional puts only, and only by a
higher number.
"""

from __future__ import annotations

import json

from dredge.errors import FormatError, NotFoundError, UnavailableError
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json, to_json
from dredge.storage import ObjectWriter

LEASE_MEMBER = "lease"
_ROUNDS_MAX = 20


def hand_over(writer: ObjectWriter, key: str, grant: LeaseGrant) -> bool:
    """Write a lease into a stored plan that an earlier lease of the same holder is in.

    Args:
        writer: on the run folder.
        key: name of the plan in it.
        grant: the new lease.

    Returns:
        Whether the plan carries this lease now. It does not when it is somebody else's, or when a lease with a
        higher number was there already; both are left as they are.

    Raises:
        NotFoundError: there is no plan.
        FormatError: it is damaged.
        UnavailableError: others replace the plan all the time.
    """
    for _ in range(_ROUNDS_MAX):
        tagged = read_tagged(writer, key)
        if tagged is None:
            raise NotFoundError(f"{writer.uri}/{key} is not there")
        etag, data = tagged
        try:
            plan = json.loads(data)
            stored = from_json(LeaseGrant, plan[LEASE_MEMBER])
        except (FormatError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{writer.uri}/{key} is not a plan of a run: no lease in it ({error})"
            ) from None
        if stored.holder != grant.holder or stored.fencing > grant.fencing:
            return False
        if stored.fencing == grant.fencing:  # also by an earlier round whose answer was lost
            return True
        value = json.dumps({**plan, LEASE_MEMBER: to_json(grant)}, indent=1, sort_keys=True)
        if replace_tagged(writer, key, value.encode(), etag):
            return True
    raise UnavailableError(
        f"{writer.uri}/{key} was changed by others each of {_ROUNDS_MAX} times. Nothing was done. Run the task again"
        " when it is not being run elsewhere."
    )
