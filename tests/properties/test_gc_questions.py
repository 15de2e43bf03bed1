"""Asking branches at many paths: whatever is chosen, every wanted path is answered for, and with few requests."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.errors import NotFoundError
from dredge.gc.check_limits import identical
from dredge.gc.check_limits.canaries import just_before
from dredge.gc.check_limits.identical import (
    PAGE,
    PAGE_COST,
    Asker,
    BranchQuestions,
    plan_questions,
)
from dredge.hashing import hash64
from dredge.lakefs import ObjectStats, Ref
from dredge.sets.hashes import unite
from tests.support.depth import depth

NAMESPACE = "s3://bucket/lake"
text = st.text(
    st.sampled_from("\0ab\ud7ff\ue000\U0010ffff") | st.characters(codec="utf-8"), min_size=1, max_size=4
)
gaps = st.lists(st.integers(1, 3) | st.integers(1, 3 * PAGE), max_size=60)


@settings(deadline=None, max_examples=depth(500, 5000))
@given(gaps=gaps, dense=st.lists(st.integers(1, 40), max_size=300))
def test_every_wanted_path_is_in_one_question_and_few_are_needed(gaps: list[int], dense: list[int]) -> None:
    ranks = np.cumsum([*gaps, *dense, *gaps], dtype=np.int64)
    found = plan_questions(ranks)
    assert found is not None
    assert [row for item in found for row in range(item.first, item.stop)] == list(range(len(ranks)))
    for item in found:
        distance = ranks[item.stop - 1] - ranks[item.first]
        assert distance < PAGE
        assert item.stop - item.first >= PAGE_COST if item.is_page else item.stop - item.first == 1
    assert len(found) <= len(ranks)
    # Pages alone, wherever anything is wanted, are the fewest requests there can be.
    fewest, end = 0, -1
    for rank in ranks.tolist():
        if rank >= end:
            fewest, end = fewest + 1, rank + PAGE
    assert len(found) <= (2 * PAGE_COST - 3) * fewest + PAGE_COST
    cost = sum(item.cost for item in found)
    assert cost <= len(ranks)
    assert plan_questions(ranks, cost) == found
    if found:
        assert plan_questions(ranks, cost - 1) is None


@given(path=text, other=text)
def test_nothing_that_anyone_would_choose_lies_between_a_path_and_what_is_just_before_it(
    path: str, other: str
) -> None:
    before = just_before(path)
    assert before.encode() < path.encode()
    if before < other < path:
        assert other.startswith(before)


class Branch:
    """What a branch serves, page by page; pages may stop short, as when a server has little time."""

    def __init__(self, served: dict[str, str], shorten: list[int]) -> None:
        self.served = served
        self.shorten = shorten
        self.asked = 0

    def stat(self, _repository: str, _ref: str, path: str) -> ObjectStats:
        self.asked += 1
        if path not in self.served:
            raise NotFoundError(path)
        return ObjectStats(path, f"{NAMESPACE}/{self.served[path]}", "", 1)

    def objects_page(
        self, repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        self.asked += 1
        most = min(amount, self.shorten[self.asked % len(self.shorten)])
        following = sorted(path for path in self.served if path > after)
        stats = [ObjectStats(path, f"{NAMESPACE}/{self.served[path]}", "", 1) for path in following[:most]]
        return stats, len(following) > most

    def branches(self, _repository: str) -> list[Ref]:
        return [Ref("main", "c")]


@settings(deadline=None, max_examples=depth(300, 3000))
@given(
    head=st.lists(text, unique=True, max_size=40),
    staged=st.dictionaries(text, st.sampled_from(["data/wanted", "data/other"]), max_size=20),
    deleted=st.sets(st.integers(0, 39)),
    wanted=st.sets(st.integers(0, 39)),
    shorten=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    page=st.integers(10, 20),
    requests=st.sampled_from([0, 30, 10_000]),
)
def test_a_path_counts_as_answered_only_when_what_is_served_there_was_seen(
    head: list[str],
    staged: dict[str, str],
    deleted: set[int],
    wanted: set[int],
    shorten: list[int],
    page: int,
    requests: int,
) -> None:
    head = sorted(head)
    served = {path: "data/committed" for number, path in enumerate(head) if number not in deleted} | staged
    rows = np.array(sorted(number for number in wanted if number < len(head)), np.int64)
    hashes = unite([hash64(pa.array(["data/wanted"]))])
    with patch.object(identical, "PAGE", page):
        planned = plan_questions(rows)
        assert planned is not None
        paths = pa.array([path.encode() for path in head], pa.large_binary())
        branch = Branch(served, shorten)
        most = sum(item.cost for item in planned) + requests
        asking = Asker(branch, "lake", NAMESPACE, paths, hashes, most)  # type: ignore[arg-type]
        answers = asking.ask([BranchQuestions(["main"], rows, rows, planned)])
    assert answers.requests == branch.asked <= most
    answered = [row for row in rows.tolist() if row not in answers.unanswered]
    reads = {served.get(head[row]) for row in answered}
    if "data/wanted" in reads:
        assert answers.served.tolist() == hashes.tolist()
    if requests == 10_000:
        assert not answers.unanswered
