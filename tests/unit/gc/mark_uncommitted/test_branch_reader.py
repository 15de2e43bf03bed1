"""What a branch shows is read to its end, remembered, and counted; an answer that proves nothing is none."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import NotFoundError, UnavailableError
from dredge.gc.mark_uncommitted import BranchReader, UnreadableError
from dredge.gc.namespaces import Keys
from dredge.hashing import hash64
from dredge.lakefs import Change, ObjectStats

NAMESPACE = "mem://lake/repo"


class Server:
    def __init__(self, changes: Sequence[tuple[str, str]] = (), objects: Sequence[str] = ()) -> None:
        self.changed = sorted(changes)
        self.paths = sorted(objects)
        self.asked: list[tuple[Any, ...]] = []
        self.before: Callable[[tuple[Any, ...]], None] = lambda question: None

    def _ask(self, *question: Any) -> None:
        self.asked.append(question)
        self.before(question)

    def changes(self, _repository: str, branch: str, amount: int, after: str) -> list[Change]:
        self._ask("changes", branch, after)
        return [Change(path, kind) for path, kind in self.changed if path > after][:amount]

    def objects(self, _repository: str, branch: str, after: str, amount: int) -> list[ObjectStats]:
        self._ask("objects", branch, after, amount)
        return [entry(path) for path in self.paths if path > after][:amount]

    def stat(self, _repository: str, branch: str, path: str) -> ObjectStats:
        self._ask("stat", branch, path)
        if path not in self.paths:
            raise NotFoundError(path)
        return entry(path)

    def reader(self, scanned: Sequence[str] = (), **sizes: int) -> BranchReader:
        plan = SimpleNamespace(repository="repo", namespace=NAMESPACE)
        run: Any = SimpleNamespace(client=self, plan=plan, keys=Keys(namespace=NAMESPACE))
        return BranchReader(run, np.sort(hash64(pa.array([*scanned], pa.string()))), **sizes)

    def take_all(self, reader: BranchReader, after: str = "") -> set[str]:
        with ThreadPoolExecutor(2) as pool:
            reader.take_all(pool, "main", after)
        return reader.addresses


def entry(path: str) -> ObjectStats:
    return ObjectStats(path, f"{NAMESPACE}/data/{path}", "c", 1)


def pages(reader: BranchReader, after: str = "") -> list[list[str]]:
    return [[change.path for change in page] for page in reader.changes("main", after)]


def test_changes_that_end_by_an_error_of_the_store_are_no_proof() -> None:
    server = Server([("a", "added")])

    def fail(question: tuple[Any, ...]) -> None:
        if question[0] == "objects":
            raise UnavailableError("500")

    server.before = fail
    with pytest.raises(UnavailableError, match="main"):
        pages(server.reader())


def test_a_page_that_does_not_move_on_is_no_proof() -> None:
    server = Server()
    answers = [[Change("a", "added")], [Change("a", "added")]]
    server.changes = lambda *_: answers.pop(0)  # type: ignore[method-assign]
    with pytest.raises(UnreadableError, match="'a'"):
        pages(server.reader())


@pytest.mark.parametrize(
    ("still", "proves"), [("added", False), ("removed", True), ("", True), ("branch gone", True)]
)
def test_a_change_under_which_nothing_is_found_must_have_gone_meanwhile(still: str, proves: bool) -> None:
    server = Server([("a", "added"), ("b", "added")], objects=["b"])

    def meanwhile(question: tuple[Any, ...]) -> None:
        if question[0] == "stat":
            server.changed = [(path, still) for path in ("a",) if still]
        if question[0] == "changes" and still == "branch gone" and len(server.asked) > 1:
            raise NotFoundError("branch")

    server.before = meanwhile
    if proves:
        assert server.take_all(server.reader()) == {"data/b"}
    else:
        with pytest.raises(UnreadableError, match="'a'"):
            server.take_all(server.reader())


def test_a_path_that_cannot_be_asked_for_is_taken_for_one_that_is_there() -> None:
    server = Server([("a\ufffd", "added")])
    with pytest.raises(UnreadableError):
        server.take_all(server.reader())


@pytest.mark.parametrize("seed", range(12))
def test_every_change_is_collected_however_dense_changes_lie(seed: int) -> None:
    chance = random.Random(seed)
    paths = [f"{number:03d}" for number in range(60)]
    share = chance.choice([0.1, 0.5, 0.9, 1.0])
    changed = [path for path in paths if chance.random() < share]
    gone = set(chance.sample(changed, len(changed) // 5))
    server = Server([(path, "added") for path in changed], [path for path in paths if path not in gone])
    pages_of_changes = server.changes

    def changes(repository: str, branch: str, amount: int, after: str) -> list[Change]:
        found = pages_of_changes(repository, branch, amount, after)
        is_look_again = len(after) < 3 and after != ""
        return [change for change in found if change.path not in gone] if is_look_again else found

    server.changes = changes  # type: ignore[method-assign]
    assert server.take_all(server.reader(page=6, dense=3)) == {f"data/{path}" for path in set(changed) - gone}
    if share == 1.0:
        assert len(server.asked) < len(changed), "listings answer for many"


@pytest.mark.parametrize("hidden", ["2", "5"])
def test_what_a_listing_does_not_show_is_asked_for(hidden: str) -> None:
    server = Server([(f"{number}", "added") for number in range(6)], [f"{number}" for number in range(6)])
    listing = server.objects

    def objects(*arguments: Any) -> list[ObjectStats]:
        return [found for found in listing(*arguments) if found.path < hidden or found.path > hidden]

    server.objects = objects  # type: ignore[method-assign, assignment]
    assert server.take_all(server.reader(dense=2)) == {f"data/{number}" for number in range(6)}
