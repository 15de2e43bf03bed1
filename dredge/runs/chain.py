"""The chain of digests: whether the results in a run folder were made from each other.

    plan ← slice_listing ← mark_uncommitted ← list_committed ← subtract ← check_limits

Every summary names the digests of what its step read, and a step reads its inputs before it begins. So an unbroken
chain proves two things without asking any clock: nothing in it was made from a result that was replaced since, and
the steps came one after the other in the order of the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dredge.errors import RefusedError
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.perform import required
from dredge.runs.summary import StepSummary
from dredge.storage.parallel import at_once

PLAN = "plan"
_LEASE = "lease"


def links_of(outputs: Iterable[type[StepOutput]]) -> dict[str, list[str]]:
    """What each of some results, and of those they were made from, must have been made from.

    Args:
        outputs: of steps.

    Returns:
        The names of the steps that each step reads, by step; `PLAN` where it reads nothing but the plan.
    """
    links: dict[str, list[str]] = {}
    for output in outputs:
        links |= links_of(output.INPUTS)
        links[output.STEP] = [item.STEP for item in output.INPUTS] or [PLAN]
    return links


def plan_digest(folder: RunFolder) -> str:
    """SHA-256 of the run's plan as it is stored, but for the lease: a run that is resumed goes on under a new one."""
    return _digest(folder.read_once(f"{PLAN}.json"))


def _digest(stored: Mapping[str, Any]) -> str:
    plan = {name: value for name, value in stored.items() if name != _LEASE}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def breaks(
    links: Mapping[str, Sequence[str]], summaries: Mapping[str, StepSummary], plan: str
) -> Iterator[str]:
    """Tell where a chain is broken, as half sentences; nothing when it holds.

    Args:
        links: what each step must have read, by step; `PLAN` stands for the plan.
        summaries: of all these steps.
        plan: digest of the plan.
    """
    digests = {PLAN: plan, **{step: summary.digest for step, summary in summaries.items()}}
    for step, wanted in links.items():
        read = summaries[step].inputs
        if missing := sorted(set(wanted) - read.keys()):
            yield f"{step} was made without {', '.join(missing)}"
        for name, digest in read.items():
            if digests.get(name) != digest:
                yield f"{step} was made from another result of {name} than the one that stands now"


def check_chain(
    folder: RunFolder,
    step: str,
    links: Mapping[str, Sequence[str]],
    seen: Mapping[str, StepSummary] | None = None,
) -> dict[str, StepSummary]:
    """Read a chain afresh, and demand that it is unbroken.

    Args:
        folder: the run folder.
        step: that builds on the chain.
        links: what each step must have read, by step; `PLAN` stands for the plan.
        seen: summaries that the caller works with; they must be the ones that stand.

    Returns:
        The summaries, by step.

    Raises:
        RefusedError: a step is not complete, or the chain is broken.
    """
    with at_once() as ask:
        plan = ask(folder.read_json, f"{PLAN}.json")
        found = required(folder, step, list(links))
    wrong = list(breaks(links, found, _digest(plan.result())))
    for name, summary in (seen or {}).items():
        if name in found and found[name].digest != summary.digest:
            wrong.append(f"{name} was done again meanwhile")
    if wrong:
        raise RefusedError(
            f"run {folder.run_id}: its results do not belong together: {'; '.join(wrong)}. Nothing (more) was"
            " deleted. Run these steps and the ones after them again, or start a new run."
        )
    return found
