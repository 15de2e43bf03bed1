"""Proof that a scan of staging lost no row: the scan is compared with each branch's own list of uncommitted changes.

A server can lose rows in two ways (source: lakeFS pkg/catalog/gc_write_uncommitted.go, pkg/graveler/ref/manager.go,
pkg/graveler/uncommitted_diff_iterator.go):

1. A page of the scan counts its rows. A branch deleted since branches were listed sets this count to 0 at its turn. If
   no row follows, the server discards the page's file, and the answer has no location. So the lost rows are in a page
   *without location*, from its first row, in (branch, path) order, to the deleted branch. Branch names, heads and
   tokens before and after prove no completeness: a branch can be created and deleted during one page.
   A token cannot spell a path that is not UTF-8. The next page begins behind the spelled path, and the rows between
   are lost, though both pages have a location.
2. An error of the key-value store in a branch's staging ends the branch's rows there, without a sign, in any page.

Against 1: each branch covered by a page without location, or with such a path in a token (`Extent`), is asked for its
changes (diff, all pages), and each changed path for its address (stat, or a listing where changes are dense). These
include the lost rows: an entry staged at the time of the page is still staged, or committed (commits are read later),
or deleted. A path that is not UTF-8 cannot be requested, so then there is no proof.

Against 2, and against errors in this reading of the source: the address under each branch's last changed path must be
in the scan. Both losses reach to the end of a branch, so a found row proves all rows before it. Two kinds of paths
decide nothing, and the path before is checked: a path written since the scan (its object is young by the store's
clock), and a path whose object is also in the head (new metadata; another branch may have staged the same object). If
none of the last paths decides, all changes of the branch are requested. Some random other paths are checked as well. An
old address missing from the scan proves a loss: then all changes of all branches are requested. A list of changes hides
the same errors as 2, so the branch is listed once behind its last change; a listing reports them.

Two assumptions: a staged entry keeps its path (shallow copies of some editions would need another check), and 404
`branch not found` means a deleted branch, whose staging cannot be committed any more.
"""

import random
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from msgspec import Struct, field

from dredge.errors import NotFoundError, UnavailableError
from dredge.gc.mark_uncommitted.staged import REPLACED, Extent
from dredge.gc.namespaces import DATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs import QUESTIONS, Change, ObjectStats
from dredge.lakefs.files.addresses import AddressType, address_readings, answer_readings
from dredge.sets.hashes import Hashes, contains
from dredge.storage.parallel import ordered_map

_PAGE = 1000  # the most that lakeFS gives
# A page of a listing with so many of the wanted paths costs less than a request for each path.
_DENSE = 16
_BRANCHES_AT_ONCE = 8
_TAIL = 16
_BY_CHANCE = 2


class TooManyError(Exception):
    """The limit of requests is reached."""


class UnreadableError(Exception):
    """The changes of a branch cannot be read completely."""


class BranchReader:
    """Asks branches for changes and addresses, and counts its requests. Its methods are thread-safe. `scanned`: hashes
    of the addresses of the server's scans. `page`: entries of a page of a listing. `dense`: wanted paths in a page that
    make a listing cheaper than a request for each."""

    def __init__(self, run: Run, scanned: Hashes, *, page: int = _PAGE, dense: int = _DENSE) -> None:
        self.questions = 0  # requests so far
        self.addresses: set[str] = set()  # keys of the namespace on some branch, missing from the scan
        self._client = run.client
        self._repository = run.plan.repository
        self._keys = run.keys
        self._scanned = scanned
        self._page = page
        self._dense = dense
        self._left: int | None = None
        self._lock = threading.Lock()

    def bound(self, questions: int) -> None:
        """Limit the requests from now on; one more raises TooManyError."""
        self._left = questions

    def changes(self, branch: str, after: str = "") -> Iterator[list[Change]]:
        """Yield the changes of a branch with an object and a greater path, page by page, in path order. Raises
        UnreadableError: a page does not advance; UnavailableError: the branch cannot be listed completely."""
        while True:
            self._count()
            try:
                page = self._client.changes(self._repository, branch, self._page, after)
            except NotFoundError:
                return  # the branch was deleted, with its staging
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
                f"branch {branch} cannot be listed to its end, so its staging is not proved complete: {error}"
            ) from None

    def stat(self, branch: str, path: str) -> ObjectStats | None:
        """The object of a path, its keys recorded; None for no object."""
        stats = self.stat_at(branch, path)
        self.keys(stats)
        return stats

    def stat_at(self, ref: str, path: str) -> ObjectStats | None:
        """The object of a path at a ref, its keys not recorded; None for no object or no such ref."""
        self._count()
        try:
            return self._client.stat(self._repository, ref, path)
        except NotFoundError:
            return None

    def keys(self, stats: ObjectStats | None) -> tuple[str, ...]:
        """The possible keys of an object, recorded if the scan lacks them."""
        # No store lists an object under a key with bytes that are not UTF-8.
        keys = tuple(key for key in self.readings(stats) if not any("\ud800" <= c <= "\udfff" for c in key))
        if not self.were_scanned(keys):
            with self._lock:
                self.addresses.update(keys)
        return keys

    def readings(self, stats: ObjectStats | None) -> tuple[str, ...]:
        """The possible keys of an object's address in the namespace.

        The repository's own address is read like a row of the scan. For an entry of another repository, every possible
        reading counts.
        """
        if stats is None:
            return ()
        if self._keys.own:
            return address_readings(stats.address, AddressType.FULL, self._keys.namespace)
        return answer_readings(stats.address, self._keys.namespace)

    def were_scanned(self, keys: Iterable[str]) -> bool:
        """Whether the scan has any of the keys."""
        return bool(contains(self._scanned, hash64(pa.array(keys, pa.string()))).any())

    def take_all(self, pool: ThreadPoolExecutor, branch: str, after: str) -> None:
        """Record the address of every change of a branch with a greater path."""
        for page in self.changes(branch, after):
            rest = self._take_listed(branch, [change.path for change in page])
            answers = list(pool.map(lambda path: self.stat(branch, path), rest))
            for path, stats in zip(rest, answers, strict=True):
                if stats is None and self._shows(branch, path) and self.stat(branch, path) is None:
                    raise UnreadableError(
                        f"branch {branch} shows {path!r} as uncommitted, but a request for it finds no object"
                    )

    def _shows(self, branch: str, path: str) -> bool:
        """Whether a path is still a change of the branch; True if it cannot be requested."""
        if REPLACED in path:
            return True
        self._count()
        try:
            page = self._client.changes(self._repository, branch, self._page, path[:-1])
        except NotFoundError:
            return False
        return any(change.path == path and change.type != "removed" for change in page)

    def _take_listed(self, branch: str, paths: list[str]) -> list[str]:
        """Record addresses from listings of the branch while they show many changed paths; return the other paths."""
        rest: list[str] = []
        place = 0
        while place < len(paths):
            rest.append(paths[place])  # a listing begins behind a path
            if len(paths) - place <= self._dense or REPLACED in paths[place]:
                return rest + paths[place + 1 :]
            found = self._objects(branch, paths[place], self._page)
            place += 1
            # A page that is not full is the last one.
            last = found[-1].path if len(found) == self._page else None
            covered = place
            while covered < len(paths) and (last is None or paths[covered] <= last):
                covered += 1
            shown = {stats.path: stats for stats in found}
            for path in paths[place:covered]:
                if path in shown:
                    self.keys(shown[path])
                else:
                    rest.append(path)  # deleted since, as a rule
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


class Proof(Struct):
    """The comparison of a scan with the branches."""

    changed_branches: int = 0  # branches with uncommitted objects
    changes: int = 0  # number of uncommitted objects
    questions: int = 0  # requests to the server
    # keys of the namespace on some branch, missing from the scan
    addresses: set[str] = field(default_factory=set)
    lost: tuple[str, str, str] | None = None  # (branch, path, address) of an old object missing from the scan
    asked_for_all: int = 0  # branches with all changes requested
    missing: str = ""  # the reason for no proof; "" for a proof
    too_many: int | None = None  # changes of the branches to request, if they were too many


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
    """Compare a scan with the branches' lists of changes, and read the possibly lost rows. The addresses of the proof
    are live, also if it lacks a part.

    Args:
        branches: head by name, listed after the scan, with hidden branches.
        everything: request all changes of every branch.
        give_up_at: do not request all changes if they are at least this many, the number that was too many before.
        tail: last changed paths of a branch to check before all are requested.
        by_chance: other changed paths of a branch to check.
    """
    return _Prover(run, branches, scanned, tail, by_chance).prove(extents, everything, give_up_at)


class _Look(Struct):
    """The end of a branch; `unsure` if no checked path decides whether the scan has the branch's last rows."""

    branch: str
    changes: int = 0
    unsure: bool = False


class _Prover:
    """Chooses the branches to ask. Its methods run in threads."""

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
        self._proof = Proof()

    def prove(self, extents: list[Extent], everything: bool, give_up_at: int | None) -> Proof:
        proof = self._proof
        found = list(ordered_map(self._look, sorted(self._branches), QUESTIONS))
        looks = {look.branch: look for look in found}
        proof.changed_branches = sum(look.changes > 0 for look in found)
        proof.changes = sum(look.changes for look in found)
        wanted = self._wanted(looks, extents, everything or proof.lost is not None)
        if wanted:
            self._read_wanted(wanted, sum(looks[branch].changes for branch in wanted), give_up_at)
        proof.questions, proof.addresses = self._reader.questions, self._reader.addresses
        return proof

    def _wanted(self, looks: dict[str, _Look], extents: list[Extent], everything: bool) -> dict[str, str]:
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

    def _read_wanted(self, wanted: dict[str, str], changes: int, give_up_at: int | None) -> None:
        """Record the address of every wanted change, or the reason for no proof."""
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

    def _look(self, branch: str) -> _Look:
        """Check the end of a branch's changes, and some random others."""
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
            pass  # the changes read so far can be checked
        look.unsure = bool(tail) and not any(self._tells(branch, change) for change in reversed(tail))
        for change in others:
            if change not in tail:
                self._tells(branch, change, False)
        return look

    def _tells(self, branch: str, change: Change, at_end: bool = True) -> bool:
        """Whether a changed path proves that the scan has, or lost, the branch's rows up to it.

        A path before the end can only prove a loss.
        """
        stats = self._reader.stat(branch, change.path)
        keys = [key for key in self._reader.keys(stats) if key.startswith(DATA)]
        scanned = self._reader.were_scanned(keys)
        lost = None if scanned else next((key for key in keys if self._is_old(key)), None)
        if not scanned and lost is None:
            # Deleted or written since the scan, or an object outside `data/`, which no run deletes.
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
        proof = self._proof
        self._reader.bound(self._most)
        with ThreadPoolExecutor(QUESTIONS.size, thread_name_prefix="staged") as pool:
            try:
                for _ in ordered_map(
                    lambda item: self._reader.take_all(pool, *item), [*wanted.items()], _BRANCHES_AT_ONCE
                ):
                    pass
            except TooManyError:
                proof.too_many = changes
            except UnreadableError as error:
                proof.missing = str(error)
        proof.asked_for_all = len(wanted)
