"""Asks branches for their changes, and for the addresses of changed paths, within a bound on questions."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from dredge.errors import NotFoundError, UnavailableError
from dredge.gc.mark_uncommitted.extents import REPLACED
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
