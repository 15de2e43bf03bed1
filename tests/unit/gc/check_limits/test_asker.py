"""Branches are asked at every path that could serve a copy; only lakeFS's own words are an answer."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import FormatError, NotFoundError, UnavailableError
from dredge.gc.check_limits import NO_ANSWER, identical
from dredge.gc.check_limits.holds import TOO_MANY
from dredge.gc.check_limits.identical import Answers, Asker, BranchQuestions, Question
from dredge.hashing import hash64
from dredge.lakefs import ObjectStats
from tests.support.gc import World, make_world, summary_of
from tests.support.identical import held, many

pytestmark = pytest.mark.usefixtures("without_canaries")


def short_pages(world: World, entries: int) -> None:
    """A server whose pages stop early, as when much lies between."""
    honest = world.client.objects_page

    def page(
        repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        return honest(repository, ref, after, min(amount, entries))

    world.client.objects_page = page  # type: ignore[method-assign]


def test_requests_never_exceed_their_bound_and_what_is_left_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identical, "PAGE", 40)
    world = make_world(safety={"identical_requests_max": 13})
    many(world, 40)
    world.commit("sole", b"a length of its own")
    orphan = world.orphan("data/slice/orphan", b"else")
    cleared = world.orphan("data/slice/cleared", b"A LENGTH OF ITS OWN")
    short_pages(world, 4)
    world.age(days=2)
    context = world.collected()
    assert orphan in world.data()
    assert cleared not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 2
    assert held(context) == {TOO_MANY: 1}


def odd_answer(_repository: str, _ref: str, *_: object) -> None:
    raise FormatError("the server's answer (200) is not JSON: '<html>'")


def no_answer(_repository: str, _ref: str, *_: object) -> None:
    raise UnavailableError("lakeFS answered 503 'slow down'")


def answer_of_another(_repository: str, _ref: str, *_: object) -> object:
    raise KeyError("path")


@pytest.mark.parametrize("answer", [odd_answer, no_answer, answer_of_another])
@pytest.mark.parametrize("count", [1, 40])
def test_without_an_answer_objects_of_that_size_are_held_and_the_run_goes_on(
    answer: Callable[..., Any], count: int
) -> None:
    world = make_world()
    many(world, count)
    again = world.upload("many/00000", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    other = world.orphan("data/slice/other", b"of another length")
    world.client.stat = world.client.objects_page = answer  # type: ignore[assignment, method-assign]
    world.age(days=2)
    context = world.collected()
    assert {again, orphan} <= world.data()
    assert other not in world.data()
    assert held(context) == {NO_ANSWER: 2}
    kept = {group["code"] for group in summary_of(context, "bulk_delete").details["groups"] if group["code"]}
    assert kept == {NO_ANSWER}


NAMESPACE = "mem://lake/repo"


def entry(path: str, key: str = "") -> ObjectStats:
    return ObjectStats(path, f"{NAMESPACE}/{key or f'data/{path}'}", "c", 4)


class Branches:
    """A server whose branches all answer the same, page for page as given."""

    def __init__(self, pages: Sequence[tuple[Sequence[ObjectStats], bool]] = ()) -> None:
        self.pages = list(pages)
        self.asked: list[tuple[str, int]] = []
        self.singly: list[str] = []
        self.stat_is: Callable[[str], ObjectStats] = entry
        self.names = ["main"]

    def objects_page(
        self, _repository: str, _branch: str, after: str, amount: int
    ) -> tuple[Sequence[ObjectStats], bool]:
        self.asked.append((after, amount))
        if not self.pages:
            raise NotFoundError("not found")
        return self.pages.pop(0)

    def stat(self, _repository: str, _branch: str, path: str) -> ObjectStats:
        self.singly.append(path)
        return self.stat_is(path)

    def branches(self, _repository: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(id=name) for name in self.names]

    def ask(
        self,
        paths: Sequence[str],
        pages: bool = True,
        *,
        wanted: Sequence[str] = (),
        branches: Sequence[str] = ("main",),
        ranks: Sequence[int] = (),
        cost_max: int = 1000,
    ) -> Answers:
        count = len(paths)
        one_by_one = [Question(number, number + 1, False) for number in range(count)]
        planned = [Question(0, count, True)] if pages else one_by_one
        group = BranchQuestions(branches, np.arange(count), np.array(ranks or range(count)), planned)
        client: Any = self
        raw = pa.array([path.encode() for path in paths], pa.large_binary())
        hashes = np.sort(hash64(pa.array([*wanted], pa.string())))
        return Asker(client, "repo", f"{NAMESPACE}/", raw, hashes, cost_max).ask([group])


@pytest.mark.parametrize("first", [[], [entry("a\U0010ffff0")]])
def test_a_page_that_does_not_reach_the_first_path_is_made_up_for_by_asking_for_that_path(
    first: list[ObjectStats],
) -> None:
    """The server cut it short before anything that was asked about, and promises more."""
    server = Branches([(first, True), ([], False)])
    answers = server.ask(["b", "c"], wanted=["data/b"])
    assert server.singly == ["b"]
    assert (answers.unanswered, answers.requests) == ({}, 3)
    assert answers.shown == {"data/b": ("main", "b")}


@pytest.mark.parametrize(
    "page",
    [
        [entry("b"), entry("b")],
        [entry("b"), entry("a")],
        [entry("`\U0010ffff")],
        [ObjectStats("a", "", "c", 4)],
    ],
    ids=["twice", "backwards", "before the first path", "no address"],
)
@pytest.mark.parametrize("has_more", [False, True])
def test_an_odd_page_is_no_answer(page: list[ObjectStats], has_more: bool) -> None:
    answers = Branches([(page, has_more)]).ask(["a", "b"])
    assert answers.unanswered == dict.fromkeys((0, 1), NO_ANSWER)


def test_a_name_that_is_not_text_does_not_answer_for_paths_before_it() -> None:
    server = Branches([([entry("a"), entry("\ufffd")], True), ([entry("b")], False)])
    answers = server.ask(["a", "b"], wanted=["data/b"])
    assert list(answers.shown) == ["data/b"]


def test_not_found_is_an_answer_only_of_a_branch_that_is_gone() -> None:
    server = Branches()
    server.names = ["main", "other"]
    assert server.ask(["a", "b"]).unanswered == dict.fromkeys((0, 1), NO_ANSWER)
    server.names = ["other"]
    assert server.ask(["a", "b"]).unanswered == {}


def test_a_branch_that_may_be_a_commit_is_not_asked() -> None:
    name = "c0ffee" * 10 + "c0ff"
    for pages in (True, False):
        server = Branches([([], False)])
        answers = server.ask(["a"], pages, branches=[name])
        assert (answers.unanswered, server.asked, server.singly) == ({0: NO_ANSWER}, [], [])


@pytest.mark.parametrize(
    ("address", "served"),
    [
        ("data/a%20b", {"data/a b", "data/a%20b"}),
        ("data/a?b", {"data/a", "data/a?b"}),
        ("data/a#b", {"data/a", "data/a#b"}),
        ("data/a/", {"data/a", "data/a/"}),
        ("data/a", {"data/a"}),
    ],
)
def test_an_address_that_may_mean_two_keys_serves_both(address: str, served: set[str]) -> None:
    wanted = ["data/a b", "data/a%20b", "data/a", "data/a?b", "data/a#b", "data/a/"]
    answers = Branches([([entry("a", address)], False)]).ask(["a"], wanted=wanted)
    assert set(answers.shown) == served
