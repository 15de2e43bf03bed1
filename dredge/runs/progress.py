"""How far a long step is: tasks leave a small file every few seconds, the driver reads them, logs one line and
leaves it in the run folder, for pages.

It works for every runner alike, because it needs nothing but the run folder.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.runs.clock import running_seconds, utc_now
from dredge.runs.folder import RunFolder

log = logging.getLogger("dredge")

EVERY_SECONDS = 5.0
NOW = "_progress/now.json"
"""Below the folder of a step: how far it is, by its driver."""


class Progress:
    """One task's side.

    Args:
        folder: the run folder.
        where: the folder for progress files that `log_progress` gave to the tasks.
        task: name of this task's file.
    """

    def __init__(self, folder: RunFolder, where: str, task: str) -> None:
        self._folder = folder
        self._name = f"{where}/{task}.json"
        self._done = 0
        self._next = running_seconds() + EVERY_SECONDS
        self._lock = threading.Lock()

    def add(self, done: int) -> None:
        """Note work done; writes at most every few seconds. Safe to call from threads."""
        with self._lock:
            self._done += done
            now = running_seconds()
            if now < self._next:
                return
            self._next = now + EVERY_SECONDS
            value = self._done
        self._folder.writer.put(self._name, json.dumps({"done": value}).encode())


def line(step: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Word one line of progress.

    Args:
        step: name.
        unit: what is counted, such as "objects".
        done: so far.
        total: of how many; None when nobody knows.
        seconds: since the start.
    """
    rate = done / seconds if seconds > 0 else 0.0
    text = f"{step}: {done:,}" + (f" of {total:,}" if total else "") + f" {unit}, {rate:,.0f}/s"
    if total and rate > 0:
        left = max(0, total - done) / rate
        text += f", {left / 60:.0f} min left" if left >= 120 else f", {left:.0f} s left"
    return text


@contextmanager
def log_progress(folder: RunFolder, step: str, unit: str, total: int | None) -> Iterator[str]:
    """Log the progress of tasks while they run.

    Args:
        folder: the run folder.
        step: name, and the folder below which progress files lie.
        unit: what is counted.
        total: of how many; None when nobody knows.

    Yields:
        The folder name to hand to `Progress` in the tasks.
    """
    # A name of its own for each attempt: files of an earlier one must not count.
    where = f"{step}/_progress/{uuid.uuid4().hex[:8]}"
    stop = threading.Event()
    started = running_seconds()

    def poll() -> None:
        while not stop.wait(EVERY_SECONDS):
            try:
                done = _done(folder, where)
            except DredgeError as error:
                log.debug("%s: progress cannot be read: %s", step, error)
                continue
            text = line(step, unit, done, total, running_seconds() - started)
            log.info("%s", text)
            _leave(folder, step, {"text": text, "done": done, "total": total, "at": utc_now().isoformat()})

    thread = threading.Thread(target=poll, name=f"progress-{step}", daemon=True)
    thread.start()
    try:
        yield where
    finally:
        stop.set()
        thread.join()


def _done(folder: RunFolder, where: str) -> int:
    keys = [item.key for item in folder.writer.list_level(f"{where}/").objects]
    return sum(json.loads(data)["done"] for _, data in folder.writer.get_many(keys))


def read_progress(folder: RunFolder, step: str) -> dict[str, Any] | None:
    """Read how far a step was when its driver last looked; None where it left no word.

    Args:
        folder: the run folder.
        step: name.

    Returns:
        `text` for people, `done`, `total` (None where nobody knows) and `at`, the time of the driver's machine.
    """
    try:
        found: dict[str, Any] = folder.read_json(f"{step}/{NOW}")
    except (NotFoundError, FormatError):
        return None
    return found


def _leave(folder: RunFolder, step: str, value: dict[str, Any]) -> None:
    try:
        folder.write_json(f"{step}/{NOW}", value)
    except DredgeError as error:
        log.debug("%s: progress cannot be written: %s", step, error)
