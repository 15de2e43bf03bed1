"""Guards that ask the world again: the server, the lease, other collectors, and objects that live."""

from __future__ import annotations

from dredge.errors import LeaseHeldError, RefusedError
from dredge.gc.check_limits.check import Check, must
from dredge.gc.history import foreign_runs
from dredge.gc.namespaces import check_namespaces
from dredge.runs.limits import Finding

_EXAMPLES_MAX = 10


def namespaces_apart(check: Check) -> Finding:
    """No repository's namespace lies in another one's."""
    namespaces = check.namespaces
    try:
        for warning in check_namespaces(check.run.plan.repository, namespaces):
            check.record.warn(warning)
    except RefusedError as error:
        return Finding("namespaces_apart", "refused", len(namespaces), None, str(error))
    text = f"the namespaces of {len(namespaces):,} repositories were compared"
    return Finding("namespaces_apart", "passed", len(namespaces), None, text)


def same_namespace(check: Check) -> Finding:
    """The repository's namespace is still the one that the run was planned for."""
    plan = check.run.plan
    same = check.namespaces.get(plan.repository) == plan.namespace
    return must("same_namespace", same, plan.namespace, None, "is still the repository's namespace")


def lease_held(check: Check) -> Finding:
    """The run still has its lease."""
    run, fencing = check.run, check.run.plan.lease.fencing
    try:
        run.lease.check(run.plan.lease, run.store_now())
    except LeaseHeldError as error:
        return Finding("lease_held", "refused", fencing, None, str(error))
    return Finding("lease_held", "passed", fencing, None, f"the run still has its lease, number {fencing}")


def no_other_collector(check: Check) -> Finding:
    """No run of another collector ended meanwhile."""
    foreign = foreign_runs(check.run)
    text = "runs of another collector ended since this one began"
    text += f": {', '.join(foreign)}" if foreign else ""
    return must("no_other_collector", not foreign, len(foreign), 0, text)


def canaries_stay(check: Check) -> Finding:
    """No object that a branch shows would be deleted."""
    living, dead = check.sampled.living, check.sampled.dead
    text = f"of {len(living):,} objects that branches show would be deleted"
    if dead:
        named = [
            f"{canary.address!r} ({canary.path!r} on {canary.branch})" for canary in dead[:_EXAMPLES_MAX]
        ]
        text += f", such as {', '.join(named)}"
    check.record.counts["canaries"] = len(living)
    return must("canaries", not dead, len(dead), 0, text)


ASKING = (lease_held, no_other_collector)
"""Guards that ask by themselves, rather than look at what all are shown."""
