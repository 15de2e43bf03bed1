"""The driver's watch while workers delete; `dredge.runs.gate` is the workers' side.

Every few seconds the driver looks at what must not have changed, and writes down after each look whether the gate is
open. When it finds a reason to stop, or when it cannot look, it writes that the gate is closed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dredge.errors import DredgeError
from dredge.runs.folder import RunFolder
from dredge.runs.gate import write_look
from dredge.storage import ObjectWriter, store_clock

log = logging.getLogger("dredge")

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
