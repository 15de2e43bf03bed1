"""The driver's watch over branches while workers delete; `dredge.runs.gate` is the workers' side.

It looks at branch heads every few seconds, and writes down after each look that the gate is open. When a head
is a commit that nothing was subtracted for, or when it cannot look, it writes that the gate is closed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from dredge.errors import DredgeError, UnavailableError
from dredge.gc.run import Run
from dredge.runs.gate import Gate, write_look

log = logging.getLogger("dredge")

__all__ = ["Gate", "Watch", "moved_ref", "watching"]


class Watch:
    """The driver's side: what it saw.

    Attributes:
        moved: branch or tag with a commit that nothing was subtracted for.
        error: why it could not look.
    """

    def __init__(self, run: Run, known: Collection[str], key: str) -> None:
        self.moved: str | None = None
        self.error: Exception | None = None
        self._run = run
        self._known = known
        self._key = key

    def look(self) -> bool:
        """Look at the heads, and write down whether the gate is open."""
        try:
            self.moved = moved_ref(self._run, self._known)
        except Exception as error:
            # Whatever it is: nobody looks now, so nobody may delete.
            self.error = error
        is_open = self.moved is None and self.error is None
        if not is_open:
            log.warning("the sweep stops: %s", self.reason)
        try:
            write_look(self._run.folder, self._key, is_open, self.reason)
        except DredgeError as error:
            self.error = self.error or error  # workers will stop at the silence
            return False
        return is_open

    @property
    def reason(self) -> str:
        """Why the gate was closed; "" while it is open."""
        if self.error is not None:
            return f"branch heads could not be looked at: {self.error}"
        return f"{self.moved} is at a commit that was not checked" if self.moved else ""

    def must_not_go_on(self) -> DredgeError | None:
        """The error to end with, when another round would not help."""
        if self.error is None:
            return None
        return UnavailableError(
            f"the sweep stopped because {self.reason}. What was deleted is in the ledger. Run the step"
            " again when lakeFS and the store answer; it goes on where it stopped."
        )


@contextmanager
def watching(run: Run, known: Collection[str], key: str) -> Iterator[Watch]:
    """Look at branch heads while workers delete: at once, and then every few seconds.

    Args:
        run: of the run.
        known: commits whose objects were subtracted.
        key: what to write down the looks as.
    """
    watch = Watch(run, known, key)
    done = threading.Event()
    every = run.plan.config.safety.heads_every_seconds

    def look() -> None:
        while not done.wait(every) and watch.look():
            pass

    thread = threading.Thread(target=look, name="heads", daemon=True)
    if watch.look():
        thread.start()
    try:
        yield watch
    finally:
        done.set()
        if thread.is_alive():
            thread.join()


def moved_ref(run: Run, known: Collection[str]) -> str | None:
    """A branch (or tag, where tags keep data) whose commit nothing was subtracted for; None when there is
    none.

    Args:
        run: of the run.
        known: commits whose objects were subtracted.
    """
    client, plan = run.client, run.plan
    refs = list(client.branches(plan.repository))
    if plan.config.keep_tags:
        refs += client.tags(plan.repository)
    return next((ref.id for ref in refs if ref.commit_id not in known), None)
