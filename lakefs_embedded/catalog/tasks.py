"""Background work of API calls, and the records of long-running work.

A record is `tasks/<prefix><20 characters>` in the repository's partition. Each kind of task has its message; all begin
with a Task, for the progress.

Source: lakeFS pkg/catalog/catalog.go, pkg/kv tasks (behaviour only).
"""

from __future__ import annotations

import contextvars
import logging
import secrets
import string
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from dredge.errors import DredgeError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository
from lakefs_embedded.errors import GravelerError, TaskNotFoundError
from lakefs_embedded.kv import KeyNotFoundError, Store

_ALPHABET = string.ascii_letters + string.digits + "_-"
_KEY_PREFIX = "tasks/"


type Status = (
    messages.GarbageCollectionPrepareStatus | messages.RepositoryDumpStatus | messages.RepositoryRestoreStatus
)


class Tasks:
    """The tasks of all repositories, each kept for `expiry` after its last change."""

    def __init__(
        self,
        kv: Store,
        clock: Callable[[], datetime],
        expiry: timedelta,
        instance_id: str,
        background: Background,
    ) -> None:
        self._kv = kv
        self._clock = clock
        self._expiry = expiry
        self._instance_id = instance_id
        self._background = background

    def submit(
        self,
        repository: Repository,
        status: Status,
        prefix: str,
        operation: str,
        work: Callable[[], None],
    ) -> str:
        """Begin a new task and run its work. Returns the task's id.

        Args:
            status: a new message; `work` may add results to it.
            prefix: of the task's id, by kind of task.
            work: its DredgeErrors are stored in the record.
        """
        task_id = self._begin(repository, status, prefix, operation)
        self._background.start(lambda: self._run(repository, status, work))
        return task_id

    def get[
        S: (
            messages.GarbageCollectionPrepareStatus,
            messages.RepositoryDumpStatus,
            messages.RepositoryRestoreStatus,
        )
    ](self, repository: Repository, task_id: str, prefix: str, kind: type[S]) -> S:
        """Read a task. Raises TaskNotFoundError also for a task of another kind."""
        if not task_id.startswith(prefix):
            raise TaskNotFoundError
        try:
            raw = self._kv.get(repository.partition, _key(task_id))
        except KeyNotFoundError:
            raise TaskNotFoundError from None
        status = messages.decode(kind, raw, f"task {task_id}")
        if self._is_old(status):
            raise TaskNotFoundError
        return status

    def _begin(self, repository: Repository, status: Status, prefix: str, operation: str) -> str:
        self._purge(repository, prefix, type(status))
        task = status.task
        task.id = prefix + "".join(secrets.choice(_ALPHABET) for _ in range(20))
        task.operation = operation
        task.owner_instance_id = self._instance_id
        self._put(repository, status)
        return task.id

    def _run(self, repository: Repository, status: Status, work: Callable[[], None]) -> None:
        task = status.task
        try:
            work()
        except DredgeError as error:
            task.error_msg = str(error)
            task.status_code = error.status if isinstance(error, GravelerError) else 500
        task.done = True
        self._put(repository, status)

    def _put(self, repository: Repository, status: Status) -> None:
        status.task.updated_at.CopyFrom(messages.to_timestamp(self._clock()))
        self._kv.set(repository.partition, _key(status.task.id), status.SerializeToString(deterministic=True))

    def _purge(self, repository: Repository, prefix: str, kind: type[Status]) -> None:
        expired = []
        for entry in self._kv.scan(repository.partition, _key(prefix)):
            if not entry.key.startswith(_key(prefix)):
                break
            status = messages.decode(kind, entry.value, "task")
            if self._is_old(status):
                expired.append(entry.key)
        for key in expired:
            self._kv.delete(repository.partition, key)

    def _is_old(self, status: Status) -> bool:
        return self._clock() - messages.from_timestamp(status.task.updated_at) > self._expiry


def _key(task_id: str) -> bytes:
    return (_KEY_PREFIX + task_id).encode("utf-8", "surrogateescape")


log = logging.getLogger(__name__)


class Background:
    """Runs work in threads, or (not `enabled`) before `start` returns, which then raises its errors."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def start(self, work: Callable[[], None]) -> None:
        """Start work; in the background an error is logged. The caller's context variables are kept."""
        if not self._enabled:
            work()
            return

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("background work failed")
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(run,), name="catalog-task", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the work started so far, at most `seconds` (None: no limit). Returns whether it is done."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
