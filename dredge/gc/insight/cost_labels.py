"""Labels for the cost of objects: the kinds of objects and the owners of ranges.

Owners: commit → metarange → range. For several commits, kinds are united, and owners become an interval from the least
to the greatest. An interval of one is a single owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from dredge.gc.insight.base_run import BaseRun, History
from dredge.gc.retention import Line, find_lines

# Bits for the references to an object: a branch head, staging, an active commit behind a head, a commit without a ref,
# a commit of a tag, a commit or path of a policy, another repository. Tag and policy are set only for commits expired
# under the rules.
HEAD, STAGED, OLD, DANGLING, TAGS, POLICY, REFERRED = (1 << bit for bit in range(7))

HEADS, STAGING, HISTORY, NO_REF = "heads", "staged", "history", "no_ref"
TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY = "tags", "policy", "tags_and_policy"
REFERRING = "referring"
GARBAGE, HELD, YOUNG, DELETED = "garbage", "held", "young", "deleted"

# Every kind, with its text. The first eight are live.
KINDS = {
    HEADS: "in the head of a branch",
    STAGING: "staged on a branch, in no head",
    HISTORY: "only in older commits kept by the rules",
    NO_REF: "only in commits without a branch or tag, kept by the rules",
    TAGS_ONLY: "only because a tag names its commit",
    POLICY_ONLY: "only because of the retention policy",
    TAGS_AND_POLICY: "only because of a tag and of the retention policy",
    REFERRING: "only because another repository names it",
    GARBAGE: "garbage: the next deleting run may delete it",
    HELD: "garbage, but held back by a guard",
    DELETED: "garbage deleted by this run",
    YOUNG: "too young to be judged",
}
LIVE = (HEADS, STAGING, HISTORY, NO_REF, TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY, REFERRING)


def kind_of(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The index in `LIVE` of the kind of each object, by its bits; -1 for none."""
    return np.select(
        [
            bits & HEAD > 0,
            bits & STAGED > 0,
            bits & OLD > 0,
            bits & DANGLING > 0,
            bits & (TAGS | POLICY) == TAGS,
            bits & (TAGS | POLICY) == POLICY,
            bits & (TAGS | POLICY) > 0,
            bits & REFERRED > 0,
        ],
        list(range(len(LIVE))),
        -1,
    )


# Least owner of a range without an owner; its greatest is -1.
NOBODY = np.iinfo(np.int32).max

# Rows of least and greatest owner.
type Spans = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of ranges."""

    kinds: npt.NDArray[np.uint8]
    branches: Spans  # interval of branch indices; a single one only for ranges of one branch alone
    commits: Spans  # interval of indices into `dates`
    branch_names: list[str]
    dates: list[datetime | None]  # of the active commits, oldest first; None for an unknown date


def owners_of(base: BaseRun, history: History) -> Owners:
    """Find the owners of the ranges of a run, in the order of `history.metaranges.ranges`."""
    now = base.plan.created_at
    lines = find_lines(history.graph, history.branches, base.rules, now)
    bits = _bits(base, history, lines)
    names = sorted(branch.id for branch in history.branches)
    place = {name: index for index, name in enumerate(names)}
    active = sorted(
        history.active, key=lambda item: _date(history, item) or datetime.min.replace(tzinfo=now.tzinfo)
    )
    count = len(history.metaranges.ranges)
    found = Owners(
        np.zeros(count, np.uint8),
        _nobody(count),
        _nobody(count),
        names,
        [_date(history, item) for item in active],
    )
    for index, commit_id in enumerate(active):
        metarange = history.active[commit_id]
        if metarange:
            rows = history.metaranges.named[metarange]
            found.kinds[rows] |= np.uint8(bits[commit_id])
            branch = _single(bits[commit_id], lines.get(commit_id), place)
            span(found.branches, rows, *((0, len(names)) if branch is None else (branch, branch)))
            span(found.commits, rows, index, index)
    # Ranges of metaranges that count as active commits.
    found.kinds[found.kinds == 0] = DANGLING
    return found


def span(spans: Spans, rows: Any, least: int, greatest: int) -> None:
    """Extend intervals by an owner, or by several."""
    spans[0, rows] = np.minimum(spans[0, rows], least)
    spans[1, rows] = np.maximum(spans[1, rows], greatest)


def _nobody(count: int) -> Spans:
    return np.stack([np.full(count, NOBODY, np.int32), np.full(count, -1, np.int32)])


def _single(bits: int, line: Line | None, place: Mapping[str, int]) -> int | None:
    """The index of the only branch with a commit; None for several owners or none."""
    if bits & (TAGS | POLICY) or line is None or line.keeper is None:
        return None
    return place[line.keeper]


def _bits(base: BaseRun, history: History, lines: Mapping[str, Line]) -> dict[str, int]:
    now = base.plan.created_at
    found = dict.fromkeys(history.active, 0)
    for commit_id in found:
        line = lines.get(commit_id)
        if commit_id in history.heads:
            found[commit_id] |= HEAD
        elif line is None:
            found[commit_id] |= DANGLING
        elif base.rules is None or line.is_active(now):
            found[commit_id] |= OLD
    if base.plan.config.keep_tags:
        _mark(found, (tag.commit_id for tag in history.tags), TAGS)
    policy = base.plan.config.policy
    for keep in policy.keeps(history.branches, history.graph) if policy is not None else ():
        if not keep.rule.paths:
            _mark(found, keep.commits, POLICY)
    # Within the tolerance for clocks, an expired commit is still active.
    return {commit_id: bits or OLD for commit_id, bits in found.items()}


def _mark(found: dict[str, int], commits: Any, bit: int) -> None:
    for commit_id in commits:
        if commit_id in found:
            found[commit_id] |= bit


def _date(history: History, commit_id: str) -> datetime | None:
    commit = history.graph.get(commit_id)
    return None if commit is None else commit.created_at
