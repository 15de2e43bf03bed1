"""What stands between a worker and each delete request: the lease, and the driver's stop marker.

The driver looks at branch heads every few seconds while workers delete. When a head is a commit that nothing
was subtracted for, or when it cannot look at all, it writes a stop marker; workers see it before their next
request.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from dredge.errors import DredgeError, NotFoundError
from dredge.gc.context import Context
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.lease import LEASE, LeaseGrant, check_lease
from dredge.runs.tasks import Json
from dredge.storage import ObjectWriter, store_clock

log = logging.getLogger("dredge")


class Gate:
    """A worker's side.

    Args:
        folder: of the run.
        state: the folder of the lease.
        config: `lease`, `stop` (key of the marker), `gate_seconds`.
    """

    def __init__(self, folder: RunFolder, state: ObjectWriter, config: Json) -> None:
        self._folder = folder
        self._state = state
        self._grant = LeaseGrant.from_json(config["lease"])
        self._stop: str = config["stop"]
        self._seconds: float = config["gate_seconds"]
        self._looked: float | None = None

    def is_open(self) -> bool:
        """Whether the next request may be sent. A look is trusted for a few seconds.

        Raises:
            LeaseHeldError: the right to delete is lost.
        """
        now = running_seconds()
        if self._looked is not None and now - self._looked < self._seconds:
            return True
        check_lease(self._state, LEASE, self._grant, store_clock(self._state, ""))
        try:
            self._folder.writer.stat(self._stop)
        except NotFoundError:
            self._looked = now
            return True
        return False


class Watch:
    """The driver's side: what it saw.

    Attributes:
        moved: branch or tag with a commit that nothing was subtracted for.
        error: why it could not look.
    """

    def __init__(self) -> None:
        self.moved: str | None = None
        self.error: DredgeError | None = None


@contextmanager
def watching(context: Context, known: Collection[str], stop: str) -> Iterator[Watch]:
    """Look at branch heads while workers delete.

    Args:
        context: of the run.
        known: commits whose objects were subtracted.
        stop: key of the stop marker.
    """
    watch = Watch()
    done = threading.Event()
    every = context.plan.config.safety.heads_every_seconds

    def look() -> None:
        while not done.wait(every):
            try:
                watch.moved = moved_ref(context, known)
            except DredgeError as error:
                watch.error = error
            if watch.moved or watch.error:
                reason = f"unknown commit of {watch.moved}" if watch.moved else f"cannot look: {watch.error}"
                log.warning("the sweep stops: %s", reason)
                context.folder.writer.put(stop, json.dumps({"reason": reason}).encode())
                return

    thread = threading.Thread(target=look, name="heads", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


def moved_ref(context: Context, known: Collection[str]) -> str | None:
    """A branch (or tag, where tags keep data) whose commit nothing was subtracted for; None when there is
    none.

    Args:
        context: of the run.
        known: commits whose objects were subtracted.
    """
    client, plan = context.client, context.plan
    refs = list(client.branches(plan.repository))
    if plan.config.keep_tags:
        refs += client.tags(plan.repository)
    return next((ref.id for ref in refs if ref.commit_id not in known), None)
