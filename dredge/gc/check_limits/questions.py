"""Plans what to ask branches about some paths, with as few requests as the paths allow.

    wanted paths of a head, by rank      · ·        ·· ···· ·· · ··· ··            ·
    asked by                             s s        [------ page -----]            s

Where few paths are wanted each is asked for by itself (`s`); where many lie close together, one page of the
branch's listing answers for all of them. A page proves what the branch serves, and what it does not, from where
it begins to its last path, or to the end of the branch when the server says that nothing follows. What lies
beyond is asked for again, so staged objects in between only cost further pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dredge.gc.check_limits.heads import Head
from dredge.gc.check_limits.places import Numbers, Places
from dredge.sets.hashes import Hashes

PAGE = 1000
"""Most entries that lakeFS gives in one page."""
PAGE_COST = 10
"""What a page costs both sides, in questions about a single path; it is asked for where it saves as many."""


@dataclass(frozen=True, slots=True)
class Question:
    """Some neighbouring wanted paths, asked for together.

    Attributes:
        first: index of the first of them.
        stop: index after the last.
        is_page: by a page of the listing; else there is one path, asked for by itself.
    """

    first: int
    stop: int
    is_page: bool

    @property
    def cost(self) -> int:
        """In questions about a single path."""
        return PAGE_COST if self.is_page else 1


def plan_questions(ranks: Numbers, most: float = float("inf")) -> list[Question] | None:
    """Choose between single paths and pages.

    Args:
        ranks: positions of the wanted paths in the branch's head, ascending and distinct.
        most: give up when the questions cost more.

    Returns:
        Questions about every wanted path exactly once, in order; None when they cost more than `most`.
    """
    ends = np.searchsorted(ranks, ranks + PAGE).tolist()
    questions: list[Question] = []
    at = cost = 0
    while at < len(ends):
        is_page = ends[at] - at >= PAGE_COST
        questions.append(Question(at, ends[at] if is_page else at + 1, is_page))
        at = questions[-1].stop
        cost += questions[-1].cost
        if cost > most:
            return None
    return questions


@dataclass(frozen=True, slots=True)
class BranchQuestions:
    """What some branches with the same head are to be asked.

    Attributes:
        branches: names.
        rows: of the wanted paths in `Asker.paths`, in key order.
        ranks: their positions in the head.
        questions: about indices of `rows`.
    """

    branches: Sequence[str]
    rows: Numbers
    ranks: Numbers
    questions: Sequence[Question]


def choose(
    places: Places, heads: list[Head], order: Hashes, cost_max: int
) -> tuple[Hashes, list[BranchQuestions]]:
    """Choose as many sizes as may be asked about, from the first on, and plan the questions.

    Args:
        places: entries of branch heads.
        heads: that have them.
        order: sizes, those first that are to be asked about first.
        cost_max: what all questions together may cost.

    Returns:
        The chosen sizes, and the questions about all of their entries.
    """
    turn = np.full(len(places.sizes), len(order), np.int64)
    if len(order) and len(places.sizes):
        by_size = np.argsort(order)
        at = np.minimum(np.searchsorted(order[by_size], places.sizes), len(order) - 1)
        same = order[by_size][at] == places.sizes
        turn[same] = by_size[at[same]]
    low, plan = 0, list[BranchQuestions]()
    high = len(order)
    while low < high:
        # All of them first: as a rule they can all be asked.
        middle = high if high == len(order) else (low + high + 1) // 2
        found = _plan(places, heads, turn < middle, cost_max)
        if found is None:
            high = middle - 1
        else:
            low, plan = middle, found
    return order[:low], plan


def _plan(
    places: Places, heads: list[Head], wanted: npt.NDArray[np.bool_], cost_max: int
) -> list[BranchQuestions] | None:
    """Questions about all wanted places to all branches; None when they cost too much."""
    left, found = cost_max, []
    for head in heads:
        rows, ranks = head.rows(places, wanted)
        questions = plan_questions(ranks, left // len(head.branches))
        if questions is None:
            return None
        left -= sum(question.cost for question in questions) * len(head.branches)
        if questions:
            found.append(BranchQuestions(head.branches, rows, ranks, questions))
    return found
