"""Every guard on a run as a whole: one function each, in the order in which they are asked.

A guard looks and says what it found; it deletes nothing and changes nothing. What holds single objects is a hold
(`dredge.gc.subtract.holds`), and upper bounds that a person may raise are limits (`dredge.runs.limits`).
"""

from __future__ import annotations

from collections.abc import Callable

from dredge.gc.check_limits import proofs, staged, surroundings
from dredge.gc.check_limits.check import Check
from dredge.runs.limits import Finding
from dredge.storage.parallel import at_once

type Guard = Callable[[Check], Finding]

GUARDS: list[Guard] = [
    proofs.listing_complete,
    proofs.staging_complete,
    proofs.order,
    proofs.live_not_empty,
    proofs.committed_not_empty,
    staged.staging_not_gone,
    proofs.nothing_nested,
    surroundings.namespaces_apart,
    surroundings.same_namespace,
    surroundings.lease_held,
    surroundings.no_other_collector,
    surroundings.canaries_stay,
    proofs.identical_content,
]
"""Guards, the cheap ones first."""


def ask_guards(check: Check) -> list[Finding]:
    """Ask every guard, and those that ask others side by side.

    Args:
        check: what they are shown.
    """
    with at_once() as ask:
        namespaces, sampled = ask(lambda: check.namespaces), ask(lambda: check.sampled)
        asked = {guard: ask(guard, check) for guard in surroundings.ASKING}
    namespaces.result(), sampled.result()
    return [asked[guard].result() if guard in asked else guard(check) for guard in GUARDS]
