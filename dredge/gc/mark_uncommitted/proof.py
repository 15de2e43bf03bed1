"""Asks branches for their changes, and for the addresses of changed paths, within a bound on questions.

Proof that a scan of staging lost nothing: the scan compared with each branch's own list of uncommitted changes.

What a server can lose, read in its source (pkg/catalog/gc_write_uncommitted.go, pkg/graveler/ref/manager.go,
pkg/graveler/uncommitted_diff_iterator.go):

1. A page of the scan counts its rows. A branch that is gone when its turn comes (deleted since branches were listed,
   by whoever, under whatever name) sets that count back to nothing. When no row follows in the page, the page's
   file is thrown away and its answer names no location. So such a loss lies in a page *without location*, and
   reaches from the page's beginning, in (branch, path) order, to the vanished branch. A page with a location has
   every row that was written to it. Branch names, heads or tokens before and after prove nothing: a branch can be
   born and gone, or gone and made again, while one page is written.
   A token cannot spell a path that is not UTF-8 (its odd bytes become U+FFFD), and the page after it begins behind
   the path that the token spells instead. What lies between the two is lost, though both pages have a location.
2. An error of the key-value store while a branch's staging is read ends that branch's rows there, without a sign,
   in a page with or without location.

Against 1, every page without location, and every branch in which a token has such a path, is made good (`Extent`):
each branch that it may have covered is asked for its changes (diff, paged to the end), each changed path for its
address (stat, or a listing of the branch where changes are dense), and all of them are united with what was scanned.
That is the very set that the page should have had: what was staged when the page was written is staged still, or
committed (commits are read later), or dead. Paths that are not UTF-8 cannot be asked for, so there is no proof then.

Against 2, and against whatever this reading of the source missed, the end of each branch is looked at after every
scan: the address under its last changed path must be among the scanned ones. Both kinds of loss take a branch's
rows up to its end (1 ends at a branch, 2 at the branch's own), so whatever row of a branch is found proves those
before it. A path that was written since the scan is passed over, towards the beginning: its object is young by the
store's own clock. So is one whose object the head has under it, too, because only its metadata are new: another branch
may have staged the same object. Where none of the last paths tells anything (a writer that appends all the time) all
changes of the branch are asked for. Some more paths are chosen by chance, should rows be lost in the middle. An old
address that was not scanned means a loss somewhere: then every branch is asked for everything. The lists of changes
are read through the same code as 2, so behind the last change the branch is listed once, which does not hide such
errors.

Assumed of the server besides: an entry keeps its path while it is staged (shallow copies, which some editions offer,
would need another look), and 404 `branch not found` is said of branches that are gone; their staging is dead.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from dredge.errors import NotFoundError, UnavailableError
from dredge.gc.mark_uncommitted.staged import REPLACED, Extent
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs import Change, ObjectStats
from dredge.lakefs.files.addresses import AddressType, address_readings, answer_readings
from dredge.sets.hashes import Hashes, contains

_PAGE = 1000
_DENSE = 16
"""A page of a listing that shows so many of the wanted paths costs less than asking for each."""


class TooManyError(Exception):
    """The bound on questions is reached."""


class UnreadableError(Exception):
    """The changes of a branch cannot be read to their end."""


class BranchReader:
    """Asks the server, counts the questions, and collects addresses. Its methods may be called from threads.

    Args:
        run: the run.
        scanned: hashes of what the server's scans gave.
        page: entries of a page of a listing, at most what lakeFS gives.
        dense: wanted paths in a page from which on it is asked for instead of each of them.

    Attributes:
        questions: requests so far.
        addresses: that some branch serves and the scan did not show, as keys of the namespace.
    """

    def __init__(self, run: Run, scanned: Hashes, *, page: int = _PAGE, dense: int = _DENSE) -> None:
        self.questions = 0
        self.addresses: set[str] = set()
        self._client = run.client
        self._repository = run.plan.repository
        self._keys = run.keys
        self._scanned = scanned
        self._page = page
        self._dense = dense
        self._left: int | None = None
        self._lock = threading.Lock()

    def bound(self, questions: int) -> None:
        """Let so many more questions be asked before TooManyError; without this there is no bound."""
        self._left = questions

    def changes(self, branch: str, after: str = "") -> Iterator[list[Change]]:
        """The changes of a branch that have an object, page by page, in path order.

        Args:
            branch: name.
            after: only paths greater.

        Raises:
            UnreadableError: the pages do not move on.
            UnavailableError: the branch cannot be listed to its end.
        """
        while True:
            self._count()
            try:
                page = self._client.changes(self._repository, branch, self._page, after)
            except NotFoundError:
                return  # the branch is gone, and its staging with it
            if not page:
                break
            if page[-1].path <= after:
                raise UnreadableError(
                    f"the changes of branch {branch} cannot be read past {after!r}, which is not UTF-8"
                )
            yield [change for change in page if change.type != "removed"]
            after = page[-1].path
        try:
            self._objects(branch, after, 1)
        except UnavailableError as error:
            raise UnavailableError(
                f"branch {branch} cannot be listed to its end, so its staging is not proved: {error}"
            ) from None

    def stat(self, branch: str, path: str) -> ObjectStats | None:
        """What a branch serves under a path; None when it serves nothing."""
        stats = self.stat_at(branch, path)
        self.keys(stats)
        return stats

    def stat_at(self, ref: str, path: str) -> ObjectStats | None:
        """What a ref has under a path, its address not remembered; None when there is nothing, or no such ref."""
        self._count()
        try:
            return self._client.stat(self._repository, ref, path)
        except NotFoundError:
            return None  # removed since, or the branch is gone

    def keys(self, stats: ObjectStats | None) -> tuple[str, ...]:
        """The keys that an object's address may mean; remembered when the scan did not have it."""
        keys = tuple(key for key in self.readings(stats) if _is_text(key))
        if not self.were_scanned(keys):
            with self._lock:
                self.addresses.update(keys)
        return keys

    def readings(self, stats: ObjectStats | None) -> tuple[str, ...]:
        """What an object's address may mean in the namespace.

        A scan is compared with what it must have had. Of another repository's entries everything counts that an answer
        may mean.
        """
        if stats is None:
            return ()
        if self._keys.own:
            return address_readings(stats.address, AddressType.FULL, self._keys.namespace)
        return answer_readings(stats.address, self._keys.namespace)

    def were_scanned(self, keys: Iterable[str]) -> bool:
        """Whether the scan had any of some keys."""
        return bool(contains(self._scanned, hash64(pa.array(keys, pa.string()))).any())

    def take_all(self, pool: ThreadPoolExecutor, branch: str, after: str) -> None:
        """Collect the address of every change of a branch.

        Args:
            pool: asks for single paths.
            branch: name.
            after: only paths greater.

        Raises:
            UnreadableError: a path is shown as changed, but nothing is found under it.
            TooManyError: the bound on questions is reached.
        """
        for page in self.changes(branch, after):
            rest = self._take_listed(branch, [change.path for change in page])
            answers = list(pool.map(lambda path: self.stat(branch, path), rest))
            for path, stats in zip(rest, answers, strict=True):
                if stats is None and self._shows(branch, path) and self.stat(branch, path) is None:
                    raise UnreadableError(
                        f"branch {branch} shows {path!r} as uncommitted, but nothing when it is asked for it"
                    )

    def _shows(self, branch: str, path: str) -> bool:
        """Whether a path is among a branch's changes (still); one that cannot be asked for may be."""
        if REPLACED in path:
            return True
        self._count()
        try:
            page = self._client.changes(self._repository, branch, self._page, path[:-1])
        except NotFoundError:
            return False
        return any(change.path == path and change.type != "removed" for change in page)

    def _take_listed(self, branch: str, paths: list[str]) -> list[str]:
        """Collect the addresses of changed paths from listings of the branch, as long as these show many of them.

        Returns:
            The paths that are left to be asked for one by one.
        """
        rest: list[str] = []
        place = 0
        while place < len(paths):
            rest.append(paths[place])  # a listing begins behind a path
            if len(paths) - place <= self._dense or REPLACED in paths[place]:
                return rest + paths[place + 1 :]
            found = self._objects(branch, paths[place], self._page)
            place += 1
            # A listing that ends before its page is full has all that follows.
            last = found[-1].path if len(found) == self._page else None
            covered = place
            while covered < len(paths) and (last is None or paths[covered] <= last):
                covered += 1
            shown = {stats.path: stats for stats in found}
            for path in paths[place:covered]:
                if path in shown:
                    self.keys(shown[path])
                else:
                    rest.append(path)  # gone since, as a rule
            dense = covered - place >= self._dense
            place = covered
            if not dense:
                return rest + paths[place:]
        return rest

    def _objects(self, branch: str, after: str, amount: int) -> list[ObjectStats]:
        self._count()
        try:
            return self._client.objects(self._repository, branch, after, amount)
        except NotFoundError:
            return []

    def _count(self) -> None:
        with self._lock:
            self.questions += 1
            if self._left is not None:
                if self._left == 0:
                    raise TooManyError
                self._left -= 1


def _is_text(key: str) -> bool:
    """Whether a store can list an object under the key: a reading with bytes that are not UTF-8 names none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in key)


_BRANCHES_AT_ONCE = 8
_QUESTIONS_AT_ONCE = 16
_TAIL = 16
_BY_CHANCE = 2


@dataclass(slots=True)
class Proof:
    """What the branches said.

    Attributes:
        branches: that were asked.
        changed_branches: that have uncommitted objects.
        changes: those objects.
        questions: requests to the server.
        addresses: that some branch serves and the scan did not show, as keys of the namespace.
        lost: (branch, path, address) of something old that the scan should have had.
        asked_for_all: branches of which every change was asked for.
        missing: why there is no proof; "" when there is one.
        too_many: changes of the branches to be asked for everything, when they were too many.
    """

    branches: int = 0
    changed_branches: int = 0
    changes: int = 0
    questions: int = 0
    addresses: set[str] = field(default_factory=set)
    lost: tuple[str, str, str] | None = None
    asked_for_all: int = 0
    missing: str = ""
    too_many: int | None = None


def prove(
    run: Run,
    branches: Mapping[str, str],
    scanned: Hashes,
    extents: list[Extent],
    everything: bool,
    give_up_at: int | None = None,
    *,
    tail: int = _TAIL,
    by_chance: int = _BY_CHANCE,
) -> Proof:
    """Compare a scan with the branches' own lists of changes, and make good what it may have lost.

    Args:
        run: the run.
        branches: head by name, listed after the scan, hidden ones too.
        scanned: hashes of what the server's scans gave.
        extents: of the pages without location.
        everything: ask every branch for everything, whatever a look at its end says.
        give_up_at: do not ask for everything where so many changes were too many before.
        tail: last changed paths of a branch that are looked at before all of them are asked for.
        by_chance: other changed paths of a branch that are looked at.

    Returns:
        The proof; `missing` says why when there is none. Its addresses are live either way.
    """
    return _Prover(run, branches, scanned, tail, by_chance).prove(extents, everything, give_up_at)


@dataclass(slots=True)
class _Look:
    """What a branch's list of changes, and its end, gave.

    Attributes:
        branch: name.
        changes: number of uncommitted objects.
        unsure: nothing that was looked at tells whether the scan had the branch's last rows.
    """

    branch: str
    changes: int = 0
    unsure: bool = False


class _Prover:
    """Decides what branches must be asked. Its methods run in threads."""

    def __init__(
        self, run: Run, branches: Mapping[str, str], scanned: Hashes, tail: int, by_chance: int
    ) -> None:
        self._run = run
        self._branches = branches
        self._tail = tail
        self._by_chance = by_chance
        self._reader = BranchReader(run, scanned)
        self._most = run.plan.config.safety.staged_questions_max
        self._lock = threading.Lock()
        self._proof = Proof(branches=len(branches))

    def prove(self, extents: list[Extent], everything: bool, give_up_at: int | None) -> Proof:
        proof = self._proof
        found = _spread(self._look, sorted(self._branches), _QUESTIONS_AT_ONCE)
        looks = {look.branch: look for look in found}
        proof.changed_branches = sum(look.changes > 0 for look in found)
        proof.changes = sum(look.changes for look in found)
        wanted = self._wanted(looks, extents, everything or proof.lost is not None)
        if wanted:
            self._settle(wanted, sum(looks[branch].changes for branch in wanted), give_up_at)
        proof.questions, proof.addresses = self._reader.questions, self._reader.addresses
        return proof

    def _settle(self, wanted: dict[str, str], changes: int, give_up_at: int | None) -> None:
        """Ask branches for all their changes, or say why not."""
        proof = self._proof
        if give_up_at is not None and changes >= give_up_at:
            proof.too_many = give_up_at
        else:
            self._ask_for_all(wanted, changes)
        if proof.too_many is not None:
            proof.missing = (
                f"branches such as {next(iter(wanted))} ({len(wanted):,} in all) have {changes:,} uncommitted changes,"
                f" too many for {self._most:,} questions"
            )

    def _wanted(self, looks: dict[str, _Look], extents: list[Extent], everything: bool) -> dict[str, str]:
        """The branches to be asked for all their changes, each with the path behind which they begin."""
        wanted: dict[str, str] = {}
        for branch, look in looks.items():
            if not look.changes:
                continue
            if everything or look.unsure:
                wanted[branch] = ""
                continue
            starts = [start for extent in extents if (start := extent.after(branch)) is not None]
            if starts:
                wanted[branch] = min(starts)
        return wanted

    def _look(self, branch: str) -> _Look:
        """Look at the end of a branch's changes, and at some of them by chance."""
        look = _Look(branch)
        chance = random.Random(f"{self._run.plan.run_id}-staged-{branch}")
        tail: deque[Change] = deque(maxlen=self._tail)
        others: list[Change] = []
        try:
            for page in self._reader.changes(branch):
                tail.extend(page)
                for change in page:
                    look.changes += 1
                    if len(others) < self._by_chance:
                        others.append(change)
                    elif (place := chance.randrange(look.changes)) < self._by_chance:
                        others[place] = change
        except UnreadableError:
            pass  # what was read can be looked at all the same
        look.unsure = bool(tail) and not any(self._tells(branch, change) for change in reversed(tail))
        for change in others:
            if change not in tail:
                self._tells(branch, change, False)
        return look

    def _tells(self, branch: str, change: Change, at_end: bool = True) -> bool:
        """Look at a changed path. Whether it proves that the scan had the branch's rows up to there, or the
        contrary; elsewhere than at the end only the contrary matters."""
        stats = self._reader.stat(branch, change.path)
        keys = [key for key in self._reader.keys(stats) if key.startswith(DATA)]
        scanned = self._reader.were_scanned(keys)
        lost = None if scanned else next((key for key in keys if self._is_old(key)), None)
        if not scanned and lost is None:
            # Gone or written since, as far as anybody can tell, or an object that no run deletes.
            return False
        if scanned and not at_end:
            return True
        if change.type == "changed" and self._is_in_head(branch, change.path, keys):
            return False  # new metadata of the same object, and another branch may have staged that, too
        if lost is not None:
            with self._lock:
                self._proof.lost = (branch, change.path, lost)
        return True

    def _is_in_head(self, branch: str, path: str, keys: list[str]) -> bool:
        stats = self._reader.stat_at(self._branches[branch], path)
        return not set(keys).isdisjoint(self._reader.readings(stats))

    def _is_old(self, key: str) -> bool:
        try:
            return self._run.reader.stat(key).last_modified < self._run.plan.cutoff
        except NotFoundError:
            return False

    def _ask_for_all(self, wanted: dict[str, str], changes: int) -> None:
        """Collect the address of every change of some branches."""
        proof = self._proof
        self._reader.bound(self._most)
        with ThreadPoolExecutor(_QUESTIONS_AT_ONCE, thread_name_prefix="staged") as pool:
            try:
                _spread(
                    lambda item: self._reader.take_all(pool, *item), list(wanted.items()), _BRANCHES_AT_ONCE
                )
            except TooManyError:
                proof.too_many = changes
            except UnreadableError as error:
                proof.missing = str(error)
        proof.asked_for_all = len(wanted)


def _spread[T, R](ask: Callable[[T], R], items: list[T], at_once: int) -> list[R]:
    """Do something for each of some items in threads; the first error ends it without beginning the rest."""
    with ThreadPoolExecutor(at_once, thread_name_prefix="branches") as pool:
        return list(pool.map(ask, items))  # which takes back what was not begun
