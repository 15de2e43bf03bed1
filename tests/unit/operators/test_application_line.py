"""What a task and the application of its run say to each other, where the application is a thread of the test."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators import application
from airflow_dredge.operators.application import Patience, SparkApplication, end_applications
from dredge.errors import ConfigError, UnavailableError
from tests.support.spark_application import RUN_URI

FREE = {"free": True, "group": 4711}
BUSY = {"free": False, "group": 4711}
type Say = Callable[[Connection], None]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets, logs and locks lie."""
    with tempfile.TemporaryDirectory(prefix="dredge-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield application._folder()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *given: found.append(given))
    return found


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(application, "_ends", lambda _, seconds: found.append(seconds))
    return found


HASTY = Patience(start_seconds=0.1, greeting_seconds=0.01, applications=1)


@pytest.fixture
def task() -> SparkApplication:
    return SparkApplication(RUN_URI, ["spark-submit"], {})


def file_of(task: SparkApplication, suffix: str, number: int = 0) -> Path:
    return application._folder() / f"{task._name}-{number}{suffix}"


def hear(line: Connection) -> bytes:
    assert line.poll(10)
    return line.recv_bytes()


@contextmanager
def listening(
    task: SparkApplication, greeting: Mapping[str, Any] | None, say: Say, number: int = 0
) -> Iterator[None]:
    def serve() -> None:
        with suppress(EOFError, OSError), listener.accept() as line:
            if greeting is not None:
                line.send_bytes(json.dumps(greeting).encode())
            say(line)

    with Listener(str(file_of(task, ".sock", number)), "AF_UNIX") as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            with suppress(OSError), socket.socket(socket.AF_UNIX) as last:  # nobody came
                last.connect(str(file_of(task, ".sock", number)))
            thread.join()


def test_nothing_is_told_to_somebody_elses_process(
    task: SparkApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    monkeypatch.setattr(application, "is_of_this_user", lambda _: False)
    with (
        listening(task, FREE, lambda line: heard.append(hear(line))),
        pytest.raises(ConfigError),
    ):
        task.do("see", {"SECRET": "hunter2"})
    assert heard == []


@pytest.fixture
def started(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    fds: list[int] = []
    code: int | None = getattr(request, "param", None)

    def start(command: list[str], **given: Any) -> Any:
        found.append({"command": command, **given})
        fds.extend(os.dup(fd) for fd in given["pass_fds"])
        given["stdout"].write(b"it starts\n")
        given["stdout"].flush()
        assert not Path(command[-1]).exists(), "it could not listen there"
        wait = lambda: found[-1].update(is_waited_for_by=threading.current_thread())  # noqa: E731
        return SimpleNamespace(pid=815, wait=wait, poll=lambda: code, returncode=code)

    monkeypatch.setattr(subprocess, "Popen", start)
    yield found
    for fd in fds:
        os.close(fd)


def test_the_kill_of_a_task_hangs_up_and_insists(
    task: SparkApplication, killed: list[tuple[int, int]], waited: list[float]
) -> None:
    task.kill()  # nothing was asked for yet
    heard: list[str] = []

    def do(line: Connection) -> None:
        hear(line)
        task.kill()
        with pytest.raises(EOFError):
            hear(line)
        heard.append("it hung up")

    with listening(task, FREE, do):
        assert task.do("see", {}) == (None, "")
    task.kill()  # its step has ended
    assert heard == ["it hung up"]
    assert waited == [Patience().kill_seconds]
    assert killed == [(FREE["group"], signal.SIGKILL)]


def test_who_started_an_application_leaves_it_to_others_once_its_own_step_has_ended(
    task: SparkApplication, killed: list[tuple[int, int]], waited: list[float]
) -> None:
    def do(line: Connection) -> None:
        hear(line)
        line.send_bytes(b'{"code": 0, "said": ""}')

    task._process = SimpleNamespace(pid=815)  # type: ignore[assignment]
    with listening(task, FREE, do):
        assert task.do("see", {}) == (0, "")
    task.kill()
    assert (killed, waited) == ([], [])


def test_an_application_is_begun_once_and_for_the_next_task(
    task: SparkApplication, started: list[dict[str, Any]]
) -> None:
    task.begin()
    task.begin()  # it starts: its lock is held
    assert len(started) == 1
    with listening(task, FREE, lambda line: None):
        task.begin()
    with listening(task, FREE, lambda line: (hear(line), line.send_bytes(b'{"code": 0, "said": ""}'))):
        assert task.do("see", {}) == (0, "")
    assert len(started) == 1


@pytest.mark.parametrize(("moment", "group"), [("_process", 815), ("_asked", FREE["group"])])
def test_a_kill_at_any_moment_ends_the_application_of_its_task_and_nothing_else(
    started: list[dict[str, Any]],
    killed: list[tuple[int, int]],
    waited: list[float],
    moment: str,
    group: int,
) -> None:
    """A signal comes as soon as the program was started, or has answered."""

    class Struck(SparkApplication):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == moment and value is not None:
                self.kill()

    task = Struck(RUN_URI, ["spark-submit"], {}, patience=HASTY)
    with suppress(UnavailableError):
        if moment == "_process":
            task.do("see", {})
        else:
            with listening(task, FREE, lambda line: hear(line)):
                assert task.do("see", {}) == (None, "")
    assert killed == [(group, signal.SIGKILL)]
    assert len(waited) == 1


@pytest.mark.parametrize(
    ("greeting", "heard", "left"),
    [(FREE, [{"end": True}], set()), (BUSY, [], {".lock", ".log"}), (None, [], set())],
    ids=["idle", "at work", "frozen"],
)
def test_the_end_of_a_run_ends_what_is_idle_and_leaves_what_is_at_work(
    task: SparkApplication, greeting: Mapping[str, Any] | None, heard: list[Any], left: set[str]
) -> None:
    said: list[Any] = []
    for suffix in (".lock", ".log"):
        file_of(task, suffix).touch()
    with listening(task, greeting, lambda line: said.append(json.loads(hear(line)))):
        end_applications(RUN_URI, HASTY)
    assert said == heard
    assert {path.suffix for path in application._folder().iterdir()} - {".sock"} == left
