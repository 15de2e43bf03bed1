"""The application lets go of its session: for good when its run is over, else for the step that comes back for it."""

import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.spark_jobs import application
from airflow_dredge.spark_jobs.job import Job
from tests.support.spark_application import connected

STEP: Mapping[str, Any] = {"run": "file:///nowhere/run", "environment": {}}


def nothing(*_: object) -> Any:
    return None


def test_who_watches_a_task_never_reads_what_the_next_one_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is over at once: its watcher comes to look when the line's number is the next one's."""
    late = threading.Event()
    watch = application._stop_when_gone

    def watch_late(task: Any, done: threading.Event) -> None:
        late.wait(10)
        assert not task.closed
        watch(task, done)

    monkeypatch.setattr(application, "_stop_when_gone", watch_late)
    monkeypatch.setattr(application, "open_session", lambda *_: object())
    monkeypatch.setattr(application, "close_session", lambda *_: None)
    jobs = {"quick": Job(nothing), "slice_listing": Job(nothing), "last": Job(nothing).ending()}
    address = tmp_path / "s"
    served = threading.Thread(target=application.serve, args=(jobs, str(address), "sc://h"), daemon=True)
    served.start()
    for step in ("quick", "slice_listing", "quick", "last"):
        with connected(address) as line:
            assert json.loads(line.recv_bytes())["free"]
            if step == "last":
                late.set()  # all who watched come to look
            line.send_bytes(json.dumps({**STEP, "step": step}).encode())
            assert line.poll(10)
            assert json.loads(line.recv_bytes())["code"] == 0
    served.join(10)
    assert not served.is_alive()


def test_nobody_is_awaited_on_a_socket_that_was_closed(tmp_path: Path) -> None:
    """It says so at once, again and again: a thread that went on asking would take a processor to itself."""
    with Listener(str(tmp_path / "s"), "AF_UNIX") as listener:
        ended = application.Application({}, Future(), idle_seconds=0)
        ended.serve(listener)
    accepting = threading.Thread(target=ended._accept, args=(listener,), daemon=True)
    accepting.start()
    accepting.join(10)
    assert not accepting.is_alive()
