"""Whose a range is: for each range the kinds of commits that name it, the one branch, and the oldest and newest commit.

commit → metarange → range; where several meet, kinds are united and owners become a span from the least to the
greatest. A span of one is a single owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from dredge.gc.analysis.base_run import BaseRun, History
from dredge.gc.cost import kinds
from dredge.gc.retention.lines import Line, lines_of

NOBODY = np.iinfo(np.int32).max
"""Least owner of what has none; the greatest is -1 then."""

type Spans = npt.NDArray[np.int32]
"""Rows of least and greatest owner."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose each of some ranges is.

    Attributes:
        kinds: bits.
        branches: span of indices of branches; never a single one where something besides one branch keeps it.
        commits: span of indices into `dates`.
        branch_names: by index.
        dates: of the active commits, oldest first; None where nobody told.
    """

    kinds: npt.NDArray[np.uint8]
    branches: Spans
    commits: Spans
    branch_names: list[str]
    dates: list[datetime | None]


def owners_of(base: BaseRun, history: History) -> Owners:
    """Find whose the ranges of a run are, in the order of `history.metaranges.ranges`."""
    now = base.plan.created_at
    lines = lines_of(history.graph, history.branches, base.rules, now)
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
    # Ranges of metaranges that count although no active commit names them.
    found.kinds[found.kinds == 0] = kinds.DANGLING
    return found


def span(spans: Spans, rows: Any, least: int, greatest: int) -> None:
    """Let spans take in an owner, or several."""
    spans[0, rows] = np.minimum(spans[0, rows], least)
    spans[1, rows] = np.maximum(spans[1, rows], greatest)


def _nobody(count: int) -> Spans:
    return np.stack([np.full(count, NOBODY, np.int32), np.full(count, -1, np.int32)])


def _single(bits: int, line: Line | None, place: Mapping[str, int]) -> int | None:
    """The index of the one branch that keeps a commit; None where others do as well, or none does."""
    if bits & (kinds.TAGS | kinds.POLICY) or line is None or line.keeper is None:
        return None
    return place[line.keeper]


def _bits(base: BaseRun, history: History, lines: Mapping[str, Line]) -> dict[str, int]:
    """The kinds of every active commit."""
    now = base.plan.created_at
    found = dict.fromkeys(history.active, 0)
    for commit_id in found:
        line = lines.get(commit_id)
        if commit_id in history.heads:
            found[commit_id] |= kinds.HEAD
        elif line is None:
            found[commit_id] |= kinds.DANGLING
        elif base.rules is None or line.is_active(now):
            found[commit_id] |= kinds.OLD
    if base.plan.config.keep_tags:
        _mark(found, (tag.commit_id for tag in history.tags), kinds.TAGS)
    policy = base.plan.config.policy
    for keep in policy.keeps(history.branches, history.graph) if policy is not None else ():
        if not keep.rule.paths:
            _mark(found, keep.commits, kinds.POLICY)
    # Within the slack of clocks a commit is active that no line keeps any more.
    return {commit_id: bits or kinds.OLD for commit_id, bits in found.items()}


def _mark(found: dict[str, int], commits: Any, bit: int) -> None:
    for commit_id in commits:
        if commit_id in found:
            found[commit_id] |= bit


def _date(history: History, commit_id: str) -> datetime | None:
    commit = history.graph.get(commit_id)
    return None if commit is None else commit.created_at
