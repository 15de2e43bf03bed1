"""Asks branches for their entries at some paths, with as few requests as the paths allow.

    wanted paths of a head, by rank      · ·        ·· ···· ·· · ··· ··            ·
    asked by                             s s        [------ page -----]            s

A page of the branch's listing answers for all wanted paths from its beginning to its last path, or to the end of the
branch when lakeFS has no more entries. Later paths are asked for again.

Only an entry, or the answer that there is none, is an answer. Any other response leaves the paths unanswered.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.check_limits.holds import NO_ANSWER, TOO_MANY
from dredge.gc.check_limits.places import Head, Numbers, Places
from dredge.hashing import hash64
from dredge.lakefs import LakeFSClient, ObjectStats
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.sets.hashes import NONE, Hashes, contains, unite

# Entries after the last wanted one: a few staged objects in between need no further page.
_PAGE_MARGIN = 100
_IN_FLIGHT = 16
_FAILURES_MAX = 16
_SHOWN_MAX = 1000
_COMMIT_ID = re.compile("[0-9a-fA-F]{64}$")
_NOT_PLAIN = re.compile(r"[%?#]|/$")
# lakeFS replaces bytes that are not UTF-8.
_REPLACED = "\ufffd"


@dataclass(slots=True)
class Answers:
    """The entries served by branches."""

    served: Hashes = field(default_factory=lambda: NONE)  # hashes of wanted objects
    # branch and path of some of them, by address
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)
    # code by row, for each path without an answer from every branch
    unanswered: dict[int, str] = field(default_factory=dict)
    requests: int = 0  # number of requests
    problem: str = ""  # the first error


@dataclass(slots=True)
class Asker:
    """Asks the branches of a repository."""

    client: LakeFSClient
    repository: str
    namespace: str
    paths: pa.LargeBinaryArray  # raw; those asked for are UTF-8
    wanted: Hashes  # of addresses
    cost_max: int  # limit for all requests; short pages use the part beyond the planned questions
    _spare: int = 0
    _failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answers: Answers = field(default_factory=Answers)
    _served: list[Hashes] = field(default_factory=list)

    def ask(self, groups: Iterable[BranchQuestions]) -> Answers:
        """Ask all questions, several at once."""
        jobs = [
            (branch, group, question)
            for group in groups
            for question in group.questions
            for branch in group.branches
        ]
        self._spare = self.cost_max - sum(question.cost for _, _, question in jobs)
        with ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="ask") as pool:
            for _ in pool.map(self._answer, jobs):
                pass
        self._answers.served = unite(self._served)
        return self._answers

    def _answer(self, job: tuple[str, BranchQuestions, Question]) -> None:
        branch, group, question = job
        rows = group.rows[question.first : question.stop].tolist()
        done = 0
        try:
            if _COMMIT_ID.match(branch):
                raise FormatError(
                    f"{branch!r} may be a branch and a commit, so an answer may be about the commit"
                )
            if question.is_page:
                paths = [self._path(row) for row in rows]
                distance = int(group.ranks[question.stop - 1] - group.ranks[question.first])
                amount = min(PAGE, distance + 1 + _PAGE_MARGIN)
                while done < len(paths) and self._may_ask(PAGE_COST if done else 0):
                    answered = self._page(branch, paths[done:], amount)
                    if not answered:
                        break
                    done += answered
            elif self._may_ask():
                self._single(branch, self._path(rows[0]))
                done = 1
            self._failures = 0 if done == len(rows) else self._failures
        except (DredgeError, LookupError, TypeError, ValueError) as error:
            self._note_failure(error)
            self._leave(rows[done:], NO_ANSWER)
        else:
            self._leave(rows[done:], NO_ANSWER if self._failures >= _FAILURES_MAX else TOO_MANY)

    def _single(self, branch: str, path: str) -> None:
        try:
            stats = self.client.stat(self.repository, branch, path)
        except NotFoundError:
            return  # deleted on that branch, or the branch was deleted
        if stats.path != path:
            raise FormatError(f"{path!r} on {branch} was asked for, and {stats.path!r} answered")
        self._take(branch, [stats])

    def _page(self, branch: str, paths: Sequence[str], amount: int) -> int:
        """Ask for a page from the first path on; returns the number of answered paths."""
        after = just_before(paths[0])
        try:
            found, has_more = self.client.objects_page(self.repository, branch, after, amount)
        except NotFoundError:
            # The answer for a missing branch, but also for an unreadable head, and then staging was not read.
            if any(ref.id == branch for ref in self.client.branches(self.repository)):
                raise
            return len(paths)
        # A replaced name sorts differently.
        names = [stats.path for stats in found if _REPLACED not in stats.path]
        if any(name <= before for before, name in pairwise([after, *names])):
            raise FormatError(f"a page of {branch} after {after!r} is not in order")
        self._take(branch, found)
        if not has_more:
            return len(paths)
        last = names[-1] if names else after
        answered = sum(path <= last for path in paths)
        if not answered and self._may_ask(1):
            self._single(branch, paths[0])
            return 1
        return answered

    def _take(self, branch: str, found: Sequence[ObjectStats]) -> None:
        addresses: list[str] = []
        paths: list[str] = []
        for stats in found:
            if not stats.address:
                raise FormatError(f"{stats.path!r} on {branch} has no physical address")
            for address in self._keys(stats.address):
                addresses.append(address)
                paths.append(stats.path)
        hashes = hash64(pa.array(addresses, pa.string()))
        hit = contains(self.wanted, hashes)
        if not hit.any():
            return
        with self._lock:
            self._served.append(hashes[hit])
            for place in np.flatnonzero(hit).tolist():
                if len(self._answers.shown) < _SHOWN_MAX:
                    self._answers.shown[addresses[place]] = (branch, paths[place])

    def _keys(self, address: str) -> tuple[str, ...]:
        """All possible keys of an address in the namespace; usually a single key."""
        prefix = f"{self.namespace.rstrip('/')}/"
        if address.startswith(prefix) and not _NOT_PLAIN.search(address):
            return (address[len(prefix) :],)
        return address_readings(address, AddressType.FULL, self.namespace)

    def _path(self, row: int) -> str:
        raw: bytes = self.paths[row].as_py()
        return raw.decode()

    def _may_ask(self, cost: int = 0) -> bool:
        """Count a request; False beyond the limit of costs or of failures. `cost` is beyond the plan."""
        with self._lock:
            if cost > max(0, self._spare) or self._failures >= _FAILURES_MAX:
                return False
            self._spare -= cost
            self._answers.requests += 1
            return True

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._answers.problem = self._answers.problem or (str(error) or type(error).__name__)
            if isinstance(error, UnavailableError):
                self._failures += 1

    def _leave(self, rows: Iterable[int], code: str) -> None:
        with self._lock:
            for row in rows:
                self._answers.unanswered[row] = code


def just_before(path: str) -> str:
    """A string before a path in sort order, with no realistic path between them."""
    head, last = path[:-1], ord(path[-1])
    if last == 0:
        return head
    before = last - 1
    if 0xD800 <= before <= 0xDFFF:
        before = 0xD7FF
    return f"{head}{chr(before)}\U0010ffff"


# Page limit of lakeFS.
PAGE = 1000
# Cost of a page, in questions about a single path.
PAGE_COST = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A request for the wanted paths from index `first` to `stop`: a page of the listing, or a single path."""

    first: int
    stop: int
    is_page: bool

    @property
    def cost(self) -> int:
        """The cost, in questions about a single path."""
        return PAGE_COST if self.is_page else 1


def plan_questions(ranks: Numbers, most: float = float("inf")) -> list[Question] | None:
    """Choose between single paths and pages for the ascending ranks of wanted paths in a head. Returns questions
    about each path exactly once, in order; None when they cost more than `most`."""
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
    """The questions to branches with the same head."""

    branches: Sequence[str]
    rows: Numbers  # of the wanted paths, in key order
    ranks: Numbers  # of these paths in the head
    questions: Sequence[Question]  # about indices of `rows`


def choose(
    places: Places, heads: list[Head], order: Hashes, cost_max: int
) -> tuple[Hashes, list[BranchQuestions]]:
    """Choose as many sizes as the limit of costs allows, from the first of `order` on. Returns the chosen sizes, and
    the questions about all of their entries."""
    turn = np.full(len(places.sizes), len(order), np.int64)
    if len(order) and len(places.sizes):
        by_size = np.argsort(order)
        at = np.minimum(np.searchsorted(order[by_size], places.sizes), len(order) - 1)
        same = order[by_size][at] == places.sizes
        turn[same] = by_size[at[same]]
    low, plan = 0, list[BranchQuestions]()
    high = len(order)
    while low < high:
        # All sizes first: usually within the limit.
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
