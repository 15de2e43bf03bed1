"""Identical content uploaded again: live on its branch, and missing in every answer about uncommitted objects.

lakeFS compares a staged entry with the committed one by size, checksum, metadata and content type. An equal entry is no
change: prepare_uncommitted omits it; yet the branch reads the new address until it is committed or reset. Such an
object differs from garbage in a single point: the head of its branch has an entry of its size, at its path.

    held for its size → entries of that size in branch heads → each branch with such a path is asked for its entry
        served → it stays · every path asked and not served → cleared · otherwise → it stays

A differing checksum is no proof: checksums can be claimed, copies keep them, and those of an encrypted store are not
hashes of the content. A staged entry is hidden only while the head of its branch has an equal entry, and it was hidden
when staging was read, so the heads of that time count.

Source: pkg/catalog/entry.go, pkg/graveler/uncommitted_diff_iterator.go

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
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.gc.check_limits.canaries import just_before
from dredge.gc.check_limits.holds import (
    HOLD_COLUMNS,
    NO_ANSWER,
    NO_PATH,
    TOO_MANY,
    CheckLimitsOutput,
    Verdicts,
    held_for_size,
)
from dredge.gc.check_limits.places import (
    PAGE,
    PAGE_COST,
    Head,
    Numbers,
    Places,
    find_heads,
    find_places,
    read_heads,
    weigh,
)
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.hashing import hash64
from dredge.lakefs import QUESTIONS, LakeFSClient, ObjectStats
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite
from dredge.sets.live import in_any
from dredge.storage.parallel import ordered_map

# Entries after the last wanted one: a few staged objects in between need no further page.
_PAGE_MARGIN = 100
_FAILURES_MAX = 16
_SHOWN_MAX = 1000
_COMMIT_ID = re.compile("[0-9a-fA-F]{64}$")
_NOT_PLAIN = re.compile(r"[%?#]|/$")
# lakeFS replaces bytes that are not UTF-8.
_REPLACED = "\ufffd"


class Answers(Struct):
    """The entries served by branches."""

    served: Hashes = field(default_factory=lambda: NONE)  # hashes of wanted objects
    # branch and path of some of them, by address
    shown: dict[str, tuple[str, str]] = field(default_factory=dict)
    # code by row, for each path without an answer from every branch
    unanswered: dict[int, str] = field(default_factory=dict)
    requests: int = 0  # number of requests
    problem: str = ""  # the first error


class Asker(Struct):
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
        for _ in ordered_map(self._answer, jobs, QUESTIONS):
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
                    f"{branch!r} may name a branch and a commit, so an answer may be about the commit"
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
            raise FormatError(f"lakeFS answered a request for {path!r} on {branch} with {stats.path!r}")
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


class Question(Struct, frozen=True):
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


class BranchQuestions(Struct, frozen=True):
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


class Proof(Struct, frozen=True):
    """The proof about candidates held for their size; `objects` is their number."""

    objects: int
    verdicts: Verdicts = field(default_factory=lambda: Verdicts.make(NONE, {}, NONE))
    answers: Answers = field(default_factory=Answers)


def prove(run: Run, runner: TaskRunner, record: StepRecord) -> Proof:
    """Ask branches about the candidates held for their size."""
    wanted = _SameSize.read(run, record.input(SubtractOutput).with_holds)
    if not wanted.objects or not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects)
    return _ask(run, runner, record, wanted)


def ask_about(
    run: Run, runner: TaskRunner, record: StepRecord, hashes: Hashes, sizes: Hashes, where: str
) -> Proof:
    """Ask branches about other objects of the mark than candidates of this run, given by hash and size. Sizes without
    an entry in a branch head are not asked about and hold no object."""
    if record.input(MarkUncommittedOutput).exact:
        return Proof(0)  # all staging records were read: no staged entry is hidden
    (of_a_head,) = in_any(record.input(ListCommittedOutput).sizes, [sizes])
    distinct, counts = np.unique(sizes[of_a_head], return_counts=True)
    wanted = _SameSize(unite([hashes[of_a_head]]), distinct, counts)
    if not wanted.objects:
        return Proof(0)
    if not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects, Verdicts.make(distinct, {TOO_MANY: distinct}, NONE))
    return _ask(run, runner, record, wanted, where)


class _SameSize(Struct, frozen=True):
    """Candidates held for their size: sorted hashes, sorted distinct sizes, and the number of each size."""

    hashes: Hashes
    sizes: Hashes
    counts: Numbers

    @property
    def objects(self) -> int:
        return int(self.counts.sum())

    @classmethod
    def read(cls, run: Run, parts: Sequence[PartInfo]) -> _SameSize:
        hashes: list[Hashes] = []
        sizes: list[Hashes] = []
        for rows in run.folder.read_parts(parts, HOLD_COLUMNS):
            found = held_for_size(rows)
            hashes.append(found["hash"].to_numpy())
            sizes.append(found["size"].to_numpy().astype(np.uint64))
        distinct, counts = np.unique(np.concatenate([NONE, *sizes]), return_counts=True)
        return cls(unite(hashes), distinct, counts)


def _ask(
    run: Run, runner: TaskRunner, record: StepRecord, wanted: _SameSize, where: str = CheckLimitsOutput.STEP
) -> Proof:
    plan, safety = run.plan, run.plan.config.safety
    contents = read_heads(run, record.input(ListCommittedOutput))
    places = find_places(run, runner, record, wanted.sizes, contents, where)
    heads = find_heads(contents, places)
    no_path = _sizes_without_path(places)
    weights = weigh(wanted.sizes, places, heads)
    askable = ~contains(unite([no_path, places.skipped]), wanted.sizes)
    # Sizes with the fewest paths first: this clears the most candidates.
    order = np.flatnonzero(askable)
    order = order[np.argsort(weights[order], kind="stable")]
    order = order[np.cumsum(wanted.counts[order]) <= safety.identical_suspects_max]
    chosen, questions = choose(places, heads, wanted.sizes[order], safety.identical_requests_max)
    asker = Asker(
        run.client,
        plan.repository,
        plan.namespace,
        places.paths,
        wanted.hashes,
        safety.identical_requests_max,
    )
    answers = asker.ask(questions)
    verdicts = _verdicts(wanted, unite([chosen]), no_path, places, answers)
    return Proof(wanted.objects, verdicts, answers)


def _verdicts(
    wanted: _SameSize, chosen: Hashes, no_path: Hashes, places: Places, answers: Answers
) -> Verdicts:
    held = {TOO_MANY: wanted.sizes[~contains(chosen, wanted.sizes)], NO_PATH: no_path}
    for code in (TOO_MANY, NO_ANSWER):
        rows = [row for row, found in answers.unanswered.items() if found == code]
        held[code] = unite([held.get(code, NONE), places.sizes[np.array(rows, np.int64)]])
    return Verdicts.make(wanted.sizes, held, answers.served)


def _sizes_without_path(places: Places) -> Hashes:
    """Sizes of entries with a path in another encoding than UTF-8: the API cannot ask for it."""
    try:
        places.paths.cast(pa.large_string())
    except pa.ArrowInvalid:
        bad = [not _is_text(path) for path in places.paths.to_pylist()]
        return unite([places.sizes[np.array(bad)]])
    return NONE


def _is_text(path: bytes) -> bool:
    try:
        return bool(path.decode())
    except UnicodeDecodeError:
        return False
