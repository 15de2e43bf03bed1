"""Living objects: a new sample of what branches show, and some of what was staged. They must be in the store."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from dredge.gc.check_limits import Canary, meant, sample
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.verify.looks import lacks
from dredge.gc.verify.output import VerifyOutput

_STAGED_SAMPLE = 200
_LOOKS = 200
"""Living objects that must have been seen in the store where not all deleted ones are looked for."""


def take_living(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Take living objects.

    Args:
        run: this run.
        staged: of its mark.
    """
    return sample(run, VerifyOutput.STEP) + _staged(run, staged)


def _staged(run: Run, staged: MarkUncommittedOutput) -> list[Canary]:
    """Some of the staged addresses of the mark: those that a re-check or a reset may have let go are told
    apart later."""
    found: list[Canary] = []
    parts = staged.addresses
    for part in parts:
        rows = run.folder.read_part(part)
        step = max(1, rows.num_rows * len(parts) // _STAGED_SAMPLE)
        found.extend(Canary(address, "", "") for address in rows["address"].to_pylist()[::step])
    return found[:_STAGED_SAMPLE]


def to_look_at(run: Run, living: list[Canary], doubtful: set[str], seen: set[str]) -> list[Canary]:
    """Choose the living objects to be looked for: all that are in doubt, and others until enough were seen.

    Args:
        run: this run.
        living: all of them.
        doubtful: addresses of those that the ledger says were deleted, or that a listing lacks.
        seen: addresses of those that a listing showed after the sweep.
    """
    if run.plan.config.verify_sample_size is None:
        return living
    found = [canary for canary in living if canary.address in doubtful]
    others = [canary for canary in living if canary.address not in doubtful | seen]
    chance = random.Random(f"{run.plan.run_id}-living")
    return found + chance.sample(others, min(len(others), max(0, _LOOKS - len(seen))))


def missing_of(run: Run, living: list[Canary]) -> list[Canary]:
    """Those of some living objects that the store does not have."""
    with ThreadPoolExecutor(run.plan.config.tuning.threads, thread_name_prefix="stat") as pool:
        found = pool.map(lambda canary: lacks(run.reader, canary.address), living)
        missing = [canary for canary, lacking in zip(living, found, strict=True) if lacking]
    # lakeFS words some keys decoded or without a query, and then another key is meant.
    return [canary for canary in missing if not meant(run, canary)]


def words_of(canary: Canary) -> str:
    """An object with the place where it lives, for people."""
    if not canary.branch:
        return f"{canary.address!r} (staged)"
    return f"{canary.address!r} ({canary.path!r} on {canary.branch})"
