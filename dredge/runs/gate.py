"""What stands between a worker and each delete request: the lease, the try, and the driver's watch.

While workers delete, the driver looks every few seconds at what must not have changed, and writes down after
each look whether the gate is open. Workers read this before each request. What was seen too long ago is
closed as well, so a driver that died or hangs stops its workers by its silence, and so does a machine that was
suspended in the middle of a look, the driver's or the worker's. One clock says how long ago that was: the store's,
which the driver asked before it looked, and the worker asks after it has read what the driver saw. What lies between,
a pause of either machine or an answer that came late, makes the look older and never younger. A worker's own clock
says for how long it has known a look: that one is no younger when the store's clock is set back, and its time comes
once more. A driver that lives on although its step is being tried again is an orphan: its workers stop because theirs
is not the newest try.

A driver may also find that some candidates came into use while workers delete. It publishes these in numbered files,
each of which names everything published so far, and only then writes down its look. A worker reads the newest
publication together with the look, and a request that was prepared before a newer one is not sent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.lease import LEASE, LeaseGrant, check_lease
from dredge.runs.payload import from_json, to_json
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun
from dredge.storage import ObjectWriter, exists, store_clock
from dredge.storage.clock import PROBE, probe_of
from dredge.storage.model import MaySend

log = logging.getLogger("dredge")


def write_look(
    folder: RunFolder, key: str, is_open: bool, reason: str, at: datetime | None, published: int = 0
) -> None:
    """Write down what the driver saw.

    Args:
        folder: the run folder.
        key: where, relative to the folder.
        is_open: whether workers may delete.
        reason: why they may not.
        at: the store's time when the look began; None where it could not be asked.
        published: number of the newest publication of candidates that came into use; 0 for none.
    """
    seen = {
        "open": is_open,
        "reason": reason,
        "at": None if at is None else at.isoformat(),
        "published": published,
    }
    try:
        if not is_open:
            folder.write_json(_shut(key), seen)
    finally:  # either closes it
        folder.write_json(key, seen)


def publish(folder: RunFolder, where: str, number: int, parts: Sequence[PartInfo]) -> None:
    """Publish which candidates came into use while workers delete. Comes before the look that found them is written.

    Args:
        folder: the run folder.
        where: folder of the publications, relative to the run folder.
        number: of this publication, from 1 without gaps. A number is used once, so an earlier publication that arrives
            late at the store replaces nothing.
        parts: everything published so far, and the new files.
    """
    folder.settle()
    folder.write_json(_publication(where, number), {"parts": [to_json(part) for part in parts]})


def _publication(where: str, number: int) -> str:
    return f"{where}/{number:06d}.json"


def _shut(key: str) -> str:
    """Where it is written besides that a gate was closed. An earlier look may arrive at the store after the last one,
    when its request was taken for lost and sent again; here nothing replaces anything."""
    return f"{key}.shut"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """What a worker's gate looks at; a payload.

    Attributes:
        lease: the right to delete.
        watch: key of what the driver writes after each look, relative to the run folder.
        trusted_seconds: how long a look through the gate counts.
        silence_seconds_max: the gate is closed when what the driver saw last is older.
        published: folder of the publications, relative to the run folder; "" for a driver that publishes nothing.
    """

    lease: LeaseGrant
    watch: str
    trusted_seconds: float
    silence_seconds_max: float
    published: str = ""


class Gate:
    """A worker's side.

    Args:
        folder: the run folder; what is written there belongs to the try that deletes.
        state: the folder of the lease.
        config: what to look at.
        probe: the object by which the store is asked for the time.

    Raises:
        FormatError: the folder belongs to no try, so nobody could tell whether the worker still counts.
    """

    def __init__(
        self, folder: RunFolder, state: ObjectWriter, config: GateConfig, probe: str = PROBE
    ) -> None:
        if folder.attempt is None:
            raise FormatError(f"run {folder.run_id}: nothing is deleted outside a try of a step")
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
        """Whether a request was not let through."""
        self.number = 0
        """Number of the newest publication that was read."""
        self.published: tuple[PartInfo, ...] = ()
        """Files of candidates that came into use, as that publication names them."""

    @classmethod
    def of_task(cls, run: WorkerRun, config: GateConfig) -> Gate:
        """Make the gate of a task of a step.

        Args:
            run: as the task sees it.
            config: the same for all tasks.
        """
        return cls(run.folder, run.open_state(), config, probe_of(run.task))

    def is_open(self) -> bool:
        """Whether the next request may be sent. A look is trusted for a few seconds.

        Raises:
            LeaseHeldError: the right to delete is lost.
            OvertakenError: the sweep is being tried again elsewhere.
        """
        now = running_seconds()
        if self._looked is not None and now - self._looked < self._config.trusted_seconds:
            return True
        seen = self._seen_at()
        asked = running_seconds()
        store_now = store_clock(self._state, "", self._probe)
        check_lease(self._state, LEASE, self._config.lease, store_now)
        self.attempt.check()
        # This machine may have slept since it asked for the time.
        store_now += timedelta(seconds=running_seconds() - asked)
        # One from the future is of any age: the store's clock was set back since, or another server of it is ahead.
        if seen is None or max(abs(store_now - seen), self._known_for(seen, asked)) >= self._silence:
            return False
        self._looked = now
        return True

    def lets_through(self) -> bool:
        """Whether a deleter may send a request; it asks right before each, however long it waited or tried again.

        Once it said no it says so for good, also when it could not look; `is_open` raises what is wrong.
        """
        with self._lock:
            try:
                self.has_shut = self.has_shut or not self.is_open()
            except Exception as error:
                log.warning("no further request is sent: %s", error)
                self.has_shut = True
            return not self.has_shut

    def permission(self) -> MaySend:
        """Give a `lets_through` for requests that were prepared with what is published now: it refuses them once
        something newer is published. Unlike a closed gate this ends nothing; prepare the rest again."""
        number = self.number
        return lambda: self.lets_through() and self.number == number

    def _read_published(self, named: int) -> None:
        """Read the newest publication: the one that the look names, or a later one that is there already."""
        where, number = self._config.published, max(self.number, named)
        if not where:
            return
        while exists(self._folder.writer, _publication(where, number + 1)):
            number += 1
        if number != self.number:
            found = self._folder.read_json(_publication(where, number))
            self.published = tuple(from_json(PartInfo, part) for part in found["parts"])
            self.number = number

    def _known_for(self, seen: datetime, now: float) -> timedelta:
        """For how long at least this worker knows what the driver saw: it is as old, however the store's clock was set
        meanwhile."""
        if self._known[0] != seen:
            self._known = seen, now
        return timedelta(seconds=now - self._known[1])

    def _seen_at(self) -> datetime | None:
        """When the driver began its last look, by the store's clock; None where it found the gate closed, or has not
        looked yet."""
        try:
            seen = self._folder.read_json(self._config.watch)
        except NotFoundError:
            return None
        if seen["open"] and not exists(self._folder.writer, _shut(self._config.watch)):
            self._read_published(seen["published"])
            return datetime.fromisoformat(seen["at"])
        return None


type Look = Callable[[], str | None]
"""Looks once: gives why the sweep must stop, None while it may go on; raises when it cannot tell."""


class Watch:
    """What the driver saw.

    Args:
        folder: the run folder.
        state: the folder of the lease, whose clock the workers ask as well.
        key: where the looks are written down, relative to the run folder.
        look: looks once.
        published: gives the number of the newest publication, after a look; see `dredge.runs.gate.publish`.

    Attributes:
        found: why the sweep must stop; None while it may go on.
        error: why the driver could not look, or could not write down that it did.
    """

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

    def look(self) -> bool:
        """Look, and write down whether the gate is open."""
        at = None
        try:
            at = store_clock(self._state, "")  # before the look: what is written late was still seen then
            self.found = self._look()
        except Exception as error:
            # Whatever it is: nobody looks now, so nobody may delete.
            self.error = error
        is_open = self.found is None and self.error is None
        if not is_open:
            log.warning("the sweep stops: %s", self.reason)
        try:
            write_look(self._folder, self._key, is_open, self.reason, at, self._published())
        except DredgeError as error:
            self.error = self.error or error  # workers will stop at the silence
            return False
        return is_open

    @property
    def reason(self) -> str:
        """Why the gate was closed; "" while it is open."""
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
) -> Iterator[Watch]:
    """Look while workers delete: at once, and then every few seconds.

    Args:
        folder: the run folder.
        state: the folder of the lease.
        key: where the looks are written down, relative to the run folder; no two drivers may share it.
        look: looks once.
        every_seconds: between two looks.
        published: gives the number of the newest publication, after a look.
    """
    watch, done = Watch(folder, state, key, look, published), threading.Event()

    def keep_looking() -> None:
        while not done.wait(every_seconds) and watch.look():
            pass

    thread = threading.Thread(target=keep_looking, name="watch", daemon=True)
    if watch.look():
        thread.start()
    try:
        yield watch
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
