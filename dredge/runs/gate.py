"""Checks before each delete request: the lease, the try, and the driver's watch.

While workers delete, the driver checks its conditions every few seconds, and writes each result, a "look",
to the run folder. A worker reads the newest look before each request, and stops if the look closed the gate or is too
old. So a crashed driver stops its workers, and so does a suspended machine.

The age of a look is measured by the store's clock: the driver asks for the time before it checks, the worker after it
has read the look. Pauses in between make the look older, never younger. The worker's own clock measures how long it has
known the look, for the case that the store's clock is set back. Workers of an orphaned driver stop because their try is
not the newest.

Candidates in use since the re-check are published by the driver in numbered files before it writes the look.
Each file names all such candidates. A worker reads the newest publication with the look, and does not send a request
that was prepared before a newer publication.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from msgspec import Struct

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.lease import LEASE, LeaseGrant, check_held, read_lease
from dredge.runs.payload import PartInfo, from_json, to_json
from dredge.runs.tasks import WorkerRun
from dredge.storage import ObjectWriter, exists, store_clock
from dredge.storage.model import MaySend
from dredge.storage.parallel import at_once
from dredge.storage.probe import PROBE, probe_of

log = logging.getLogger("dredge")


def write_look(
    folder: RunFolder, key: str, is_open: bool, reason: str, at: datetime | None, published: int = 0
) -> None:
    """Write the result of a look. `key`: relative to the run folder. `at`: the store's time when the look began; None
    if the store did not answer. `published`: number of the newest publication; 0 if absent."""
    seen = {
        "open": is_open,
        "reason": reason,
        "at": None if at is None else at.isoformat(),
        "published": published,
    }
    try:
        if not is_open:
            folder.write_json(_shut(key), seen)
    finally:  # each of the two writes closes the gate
        folder.write_json(key, seen)


def publish(folder: RunFolder, where: str, number: int, parts: Sequence[PartInfo]) -> None:
    """Publish candidates in use since the re-check. Call it before `write_look`. `where`: folder of the publications,
    relative to the run folder. `number`: from 1 without gaps. A number is used once, so a late write of an earlier
    publication has no effect."""
    folder.settle()
    folder.write_json(_publication(where, number), {"parts": [to_json(part) for part in parts]})


def _publication(where: str, number: int) -> str:
    return f"{where}/{number:06d}.json"


def _shut(key: str) -> str:
    return f"{key}.shut"


class GateConfig(Struct, frozen=True, kw_only=True):
    """Configuration of a worker's gate; a payload."""

    lease: LeaseGrant
    watch: str  # key of the looks, relative to the run folder
    trusted_seconds: float  # how long a worker relies on a look without reading it again
    silence_seconds_max: float  # the gate is closed if the newest look is older
    published: str = ""  # folder of the publications; "" without publications


class Gate:
    """A worker's side. `state`: the folder of the lease. `probe`: the object for requests of the store's time. Raises
    FormatError: the folder has no try."""

    def __init__(
        self, folder: RunFolder, state: ObjectWriter, config: GateConfig, probe: str = PROBE
    ) -> None:
        if folder.attempt is None:
            raise FormatError(f"run {folder.run_id}: a task without a try of a step deletes nothing")
        self._folder = folder
        self._state = state
        self._config = config
        self._probe = probe
        self.attempt = folder.attempt
        self._silence = timedelta(seconds=config.silence_seconds_max)
        self._looked: float | None = None
        self._known: tuple[datetime | None, float] = None, 0.0
        self._lock = threading.Lock()
        self.has_shut = False
        # A request was held back.
        self.number = 0
        # Number of the newest publication that was read.
        self.published: tuple[PartInfo, ...] = ()
        # Files of that publication.

    @classmethod
    def of_task(cls, run: WorkerRun, config: GateConfig) -> Gate:
        """Make the gate of a task."""
        return cls(run.folder, run.open_state(), config, probe_of(run.task))

    def is_open(self) -> bool:
        """Whether the next request may be sent. A look is trusted for a few seconds. Raises LeaseHeldError: the lease
        is lost; OvertakenError: another try of the sweep has started."""
        now = running_seconds()
        if self._looked is not None and now - self._looked < self._config.trusted_seconds:
            return True
        with at_once() as ask:
            held, number = ask(read_lease, self._state, LEASE), ask(self.attempt.check)
            seen = self._seen_at()
        asked = running_seconds()
        store_now = store_clock(self._state, "", self._probe)
        check_held(self._state, LEASE, self._config.lease, held.result(), store_now)
        number.result()
        # This machine may have been suspended since it read the store's time.
        store_now += timedelta(seconds=running_seconds() - asked)
        # A look from the future has an unknown age: the store's clock was set back, or another of its servers is ahead.
        if seen is None or max(abs(store_now - seen), self._known_for(seen, asked)) >= self._silence:
            return False
        self._looked = now
        return True

    def lets_through(self) -> bool:
        """Whether a deleter may send a request; deleters call this before each request.

        After the first False, also for an error, it stays False; `is_open` raises the error.
        """
        with self._lock:
            try:
                self.has_shut = self.has_shut or not self.is_open()
            except Exception as error:
                log.warning("no further request is sent: %s", error)
                self.has_shut = True
            return not self.has_shut

    def permission(self) -> MaySend:
        """Return a `lets_through` for requests prepared with the current publication. It refuses them after a
        newer publication; then prepare them again."""
        number = self.number
        return lambda: self.lets_through() and self.number == number

    def _read_published(self, named: int, is_later: bool) -> None:
        """Read the newest publication. `named`: its number in the look. `is_later`: whether a later one exists."""
        where, number = self._config.published, max(self.number, named)
        if number == self.number and not is_later:
            return
        while exists(self._folder.writer, _publication(where, number + 1)):
            number += 1
        if number != self.number:
            found = self._folder.read_json(_publication(where, number))
            self.published = tuple(from_json(PartInfo, part) for part in found["parts"])
            self.number = number

    def _known_for(self, seen: datetime, now: float) -> timedelta:
        if self._known[0] != seen:
            self._known = seen, now
        return timedelta(seconds=now - self._known[1])

    def _seen_at(self) -> datetime | None:
        """Return the store's time when the newest look began; None if the gate is closed, or without a look."""
        writer, where = self._folder.writer, self._config.published
        with at_once() as ask:
            look = ask(self._folder.read_json, self._config.watch)
            shut = ask(exists, writer, _shut(self._config.watch))
            later = bool(where) and exists(writer, _publication(where, self.number + 1))
        try:
            seen = look.result()
        except NotFoundError:
            return None
        if seen["open"] and not shut.result():
            self._read_published(seen["published"], later)
            return datetime.fromisoformat(seen["at"])
        return None


# Returns why the sweep must stop, or None; raises if it cannot check.
type Look = Callable[[], str | None]


class Watch:
    """The driver's side. `state`: the folder of the lease: workers ask the same clock. `key`: of the looks, relative to
    the run folder. `published`: returns the number of the newest publication, after a look. `found`: why the sweep must
    stop; None while it may continue. `error`: why the driver could not check, or could not write the look."""

    def __init__(
        self,
        folder: RunFolder,
        state: ObjectWriter,
        key: str,
        look: Look,
        published: Callable[[], int] = lambda: 0,
    ) -> None:
        self.found: str | None = None
        self.error: Exception | None = None
        self._folder = folder
        self._state = state
        self._key = key
        self._look = look
        self._published = published

    def look(self, at: datetime | None = None) -> bool:
        """Check once, and write whether the gate is open. `at`: the store's time, read before; None asks for it."""
        try:
            # Before the check: a late write still has this time.
            at = at or store_clock(self._state, "")
            self.found = self._look()
        except Exception as error:
            # Without a look no worker may delete.
            self.error = error
        is_open = self.found is None and self.error is None
        if not is_open:
            log.warning("the sweep stops: %s", self.reason)
        try:
            write_look(self._folder, self._key, is_open, self.reason, at, self._published())
        except DredgeError as error:
            self.error = self.error or error  # workers stop when the last look is too old
            return False
        return is_open

    @property
    def reason(self) -> str:
        """Why the gate is closed; "" while it is open."""
        if self.error is not None:
            return str(self.error) or type(self.error).__name__
        return self.found or ""


@contextmanager
def watching(
    folder: RunFolder,
    state: ObjectWriter,
    key: str,
    look: Look,
    every_seconds: float,
    published: Callable[[], int] = lambda: 0,
    at: datetime | None = None,
) -> Iterator[Watch]:
    """Look during a block: at once, and then every few seconds. `key`: of the looks, relative to the run folder; no two
    drivers may share it. `published`: returns the number of the newest publication, after a look. `at`: the store's
    time, read before, for the first look."""
    watch, done = Watch(folder, state, key, look, published), threading.Event()

    def keep_looking() -> None:
        while not done.wait(every_seconds) and watch.look():
            pass

    thread = threading.Thread(target=keep_looking, name="watch", daemon=True)
    if watch.look(at):
        thread.start()
    try:
        yield watch
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
