"""The guard that staging did not vanish: nothing is staged, where the run before found plenty."""

from __future__ import annotations

import random

from dredge.errors import NotFoundError
from dredge.gc.check_limits.check import Check
from dredge.gc.history import previous
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.runs.limits import Finding

_RULE = "staging_not_gone"
_PATHS_MAX = 10
"""Paths that a branch is asked about."""


def staging_not_gone(check: Check) -> Finding:
    """Staging is not empty, or was never full, or no branch shows anything staged."""
    run, now = check.run, check.staged.counts["rows"]
    before = previous(run, MarkUncommittedOutput)
    plenty = run.plan.config.safety.staged_rows_plenty
    had = before.counts["rows"] if before is not None else 0
    text = f"{now:,} addresses are staged; the run before found {had:,}"
    if now or had < plenty:
        return Finding(_RULE, "passed", now, plenty, text)
    branch = _branch_with_changes(run)
    if branch is not None:
        text = f"{text}, and branch {branch} shows uncommitted objects"
        return Finding(_RULE, "refused", now, plenty, text)
    return Finding(_RULE, "passed", now, plenty, f"{text}; no branch asked shows any uncommitted object")


def _branch_with_changes(run: Run) -> str | None:
    """A branch that shows uncommitted objects of this namespace although the scan found none."""
    plan = run.plan
    chance = random.Random(f"{plan.run_id}-staged")
    branches = run.client.branches(plan.repository)
    chance.shuffle(branches)
    for branch in branches[: plan.config.safety.canary_branches]:
        try:
            changes = run.client.changes(plan.repository, branch.id)
        except NotFoundError:
            continue  # the branch went away meanwhile
        paths = [change.path for change in changes if change.type != "removed"]
        chosen = chance.sample(paths, min(len(paths), _PATHS_MAX))
        if any(_is_ours(run, branch.id, path) for path in chosen):
            return branch.id
    return None


def _is_ours(run: Run, branch: str, path: str) -> bool:
    """Whether what a branch shows lies in this namespace, as far as anybody can tell."""
    try:
        address = run.client.stat(run.plan.repository, branch, path).address
    except NotFoundError:
        return True
    return bool(address_readings(address, AddressType.FULL, run.plan.namespace))
