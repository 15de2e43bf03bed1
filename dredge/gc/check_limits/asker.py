"""Asks branches what they serve at some paths.

An answer is lakeFS's own: the entry, or that there is none. Everything else leaves the paths unanswered.
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
from dredge.lakefs import LakeFS, ObjectStats
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.sets.hashes import NONE, Hashes, contains, unite

_PAGE_MARGIN = 100
"""Entries beyond the last wanted one, so that some staged objects in between do not cost another page."""
_IN_FLIGHT = 16
_FAILURES_MAX = 16
_SHOWN_MAX = 1000
_COMMIT_ID = re.compile("[0-9a-fA-F]{64}$")
_NOT_PLAIN = re.compile(r"[%?#]|/$")
_REPLACED = "\ufffd"
"""What a path that is not UTF-8 has in an answer."""


@dataclass(slots=True)
class Answers:
    """What branches serve.

    Attributes:
        served: hashes of wanted objects that a branch serves.
        shown: branch and path of some of them, by address.
        unanswered: code by row of each path that some branch gave no answer about.
        requests: how many were made.
        problem: what went wrong first.
    """

    served: Hashes = field(default_factory=lambda: NONE)
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)
    unanswered: dict[int, str] = field(default_factory=dict)
    requests: int = 0
    problem: str = ""


class Asker:
    """Asks one repository.

    Args:
        client: the server.
        repository: name.
        namespace: URI that addresses are resolved against.
        paths: raw; those asked for are UTF-8.
        wanted: hashes of the addresses that matter.
        cost_max: what the requests may cost together. Each planned question has its own; what is left over goes to
            pages that stop short.
    """

    def __init__(
        self,
        client: LakeFS,
        repository: str,
        namespace: str,
        paths: pa.LargeBinaryArray,
        wanted: Hashes,
        cost_max: int,
    ) -> None:
        self._client = client
        self._repository = repository
        self._namespace = namespace
        self._prefix = f"{namespace.rstrip('/')}/"
        self._paths = paths
        self._wanted = wanted
        self._cost_max = cost_max
        self._spare = 0
        self._failures = 0
        self._lock = threading.Lock()
        self._answers = Answers()
        self._served: list[Hashes] = []

    def ask(self, groups: Iterable[BranchQuestions]) -> Answers:
        """Ask everything, several requests at a time."""
        jobs = [
            (branch, group, question)
            for group in groups
            for question in group.questions
            for branch in group.branches
        ]
        self._spare = self._cost_max - sum(question.cost for _, _, question in jobs)
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
                    f"{branch!r} may name a branch and a commit, so no answer tells what the branch reads"
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
            stats = self._client.stat(self._repository, branch, path)
        except NotFoundError:
            return  # deleted on that branch, or the branch is gone
        if stats.path != path:
            raise FormatError(f"{path!r} on {branch} was asked for, and {stats.path!r} answered")
        self._take(branch, [stats])

    def _page(self, branch: str, paths: Sequence[str], amount: int) -> int:
        """Ask for a page that begins at the first path; gives how many of the paths are answered."""
        after = just_before(paths[0])
        try:
            found, has_more = self._client.objects_page(self._repository, branch, after, amount)
        except NotFoundError:
            # Said of the branch, but of a head that cannot be read, too, and then staging was not looked at.
            if any(ref.id == branch for ref in self._client.branches(self._repository)):
                raise
            return len(paths)
        # A replaced name does not sort as the name itself does.
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
        """Note the wanted objects among what a branch serves."""
        addresses: list[str] = []
        paths: list[str] = []
        for stats in found:
            if not stats.address:
                raise FormatError(f"{stats.path!r} on {branch} has no physical address")
            for address in self._keys(stats.address):
                addresses.append(address)
                paths.append(stats.path)
        hashes = hash64(pa.array(addresses, pa.string()))
        hit = contains(self._wanted, hashes)
        if not hit.any():
            return
        with self._lock:
            self._served.append(hashes[hit])
            for place in np.flatnonzero(hit).tolist():
                if len(self._answers.shown) < _SHOWN_MAX:
                    self._answers.shown[addresses[place]] = (branch, paths[place])

    def _keys(self, address: str) -> tuple[str, ...]:
        """Every key of the namespace that an address may mean; as a rule it is plain, and means one."""
        if address.startswith(self._prefix) and not _NOT_PLAIN.search(address):
            return (address[len(self._prefix) :],)
        return address_readings(address, AddressType.FULL, self._namespace)

    def _path(self, row: int) -> str:
        raw: bytes = self._paths[row].as_py()
        return raw.decode()

    def _may_ask(self, cost: int = 0) -> bool:
        """Take a request, unless nothing is left to pay for it or the server does not answer any more.

        Args:
            cost: beyond what was planned.
        """
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
    """A text that sorts before a path, with no other path that anyone would choose between them."""
    head, last = path[:-1], ord(path[-1])
    if last == 0:
        return head
    before = last - 1
    if 0xD800 <= before <= 0xDFFF:
        before = 0xD7FF
    return f"{head}{chr(before)}\U0010ffff"


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
