"""Background work of API calls, and the records of preparations of garbage collection, the only long-running work.

A record is `tasks/GCPC<20 characters>` in the repository's partition. Its message begins with a Task, for the progress.

Source: lakeFS pkg/catalog/catalog.go, pkg/kv tasks (behaviour only).
"""

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

log = logging.getLogger(__name__)

Status = messages.GarbageCollectionPrepareStatus
OPERATION = "gc_prepare_commits"
_PREFIX = "GCPC"
_ALPHABET = string.ascii_letters + string.digits + "_-"
_EXPIRY = timedelta(hours=24)  # after its last change


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


class Tasks:
    """The tasks of all repositories."""

    def __init__(
        self, kv: Store, clock: Callable[[], datetime], instance_id: str, background: Background
    ) -> None:
        self._kv = kv
        self._clock = clock
        self._instance_id = instance_id
        self._background = background

    def submit(self, repository: Repository, work: Callable[[Status], None]) -> str:
        """Begin a new task and run its work. Returns the task's id.

        `work` adds results to the record; its DredgeErrors are stored there.
        """
        self._purge(repository)
        status = Status()
        status.task.id = _PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(20))
        status.task.operation = OPERATION
        status.task.owner_instance_id = self._instance_id
        self._put(repository, status)
        self._background.start(lambda: self._run(repository, status, work))
        return status.task.id

    def get(self, repository: Repository, task_id: str) -> Status:
        """Read a task. Raises TaskNotFoundError also for a task of another kind."""
        if not task_id.startswith(_PREFIX):
            raise TaskNotFoundError
        try:
            raw = self._kv.get(repository.partition, _key(task_id))
        except KeyNotFoundError:
            raise TaskNotFoundError from None
        status = messages.decode(Status, raw, f"task {task_id}")
        if self._is_old(status):
            raise TaskNotFoundError
        return status

    def _run(self, repository: Repository, status: Status, work: Callable[[Status], None]) -> None:
        task = status.task
        try:
            work(status)
        except DredgeError as error:
            task.error_msg = str(error)
            task.status_code = error.status if isinstance(error, GravelerError) else 500
        task.done = True
        self._put(repository, status)

    def _put(self, repository: Repository, status: Status) -> None:
        status.task.updated_at.CopyFrom(messages.to_timestamp(self._clock()))
        self._kv.set(repository.partition, _key(status.task.id), messages.encode(status))

    def _purge(self, repository: Repository) -> None:
        expired = []
        for entry in self._kv.scan(repository.partition, _key(_PREFIX)):
            if not entry.key.startswith(_key(_PREFIX)):
                break
            if self._is_old(messages.decode(Status, entry.value, "task")):
                expired.append(entry.key)
        for key in expired:
            self._kv.delete(repository.partition, key)

    def _is_old(self, status: Status) -> bool:
        return self._clock() - messages.from_timestamp(status.task.updated_at) > _EXPIRY


def _key(task_id: str) -> bytes:
    return f"tasks/{task_id}".encode("utf-8", "surrogateescape")
