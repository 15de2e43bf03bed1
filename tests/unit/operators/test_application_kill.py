"""What becomes of an application whose task is killed, that does not start, or that others need."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dredge.operators import application
from airflow_dredge.operators.application import SparkApplication, end_applications
from dredge.errors import ConfigError, UnavailableError
from tests.support.airflow import FILTERS
from tests.support.spark_application import RUN_URI, Program, alive, beating, programs, wait_until

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]
DEAF = """
import os, signal, time
from pathlib import Path
here = Path(__file__).parent
(here / "seen").write_text(f"{os.getpid()} - -")
time.sleep(60)
"""
"""A program that starts and never listens."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with programs(tmp_path) as made:
        yield made


def files() -> set[str]:
    """Suffixes of what applications have left."""
    return {path.suffix for path in Path(tempfile.gettempdir()).rglob("*") if path.is_file()}


def test_a_task_that_asked_for_nothing_yet_has_nothing_to_kill(program: Program) -> None:
    program.application().kill()


def test_a_task_whose_step_has_ended_leaves_the_application_to_others(program: Program) -> None:
    starter, second = program.application(), program.application()
    for task in (starter, second):
        assert task.do("see", {}) == (0, "")
    other, thread, codes = beating(program)
    for task in (starter, second):
        task.kill()
    before = program.beats()
    wait_until(lambda: program.beats() > before)
    assert codes == []
    other.kill()
    thread.join(20)


def started(task: SparkApplication, program: Program) -> tuple[threading.Thread, list[Exception]]:
    """A task whose application is about to start."""
    errors: list[Exception] = []

    def work() -> None:
        try:
            task.do("see", {})
        except UnavailableError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: (program.folder / "seen").exists() and bool((program.folder / "seen").read_text()))
    return thread, errors


def test_killing_a_task_that_still_waits_for_its_application_ends_that_at_once(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_KILL_AFTER_SECONDS", 120)
    program.script.write_text(DEAF)
    task = program.application()
    thread, errors = started(task, program)
    task.kill()
    thread.join(60)
    assert not thread.is_alive()
    assert f"ended with code {-signal.SIGKILL} before it did anything" in str(errors), "not by itself"
    wait_until(lambda: not alive(program.seen[0]))


def test_an_application_that_never_listens_is_told_and_no_other_is_started(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_START_SECONDS_MAX", 3)
    program.script.write_text(DEAF)
    task = program.application()
    with pytest.raises(UnavailableError, match="did not start within 3 s"):
        task.do("see", {})
    assert len(list(Path(tempfile.gettempdir()).rglob("*.lock"))) == 1
    task.kill()


def is_frozen(pid: int) -> bool:
    """Whether each thread of a process has stopped."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def test_nobody_waits_for_ever_for_an_application_that_is_frozen(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last task of a run would keep the lease."""
    program.application().do("see", {})
    os.kill(program.seen[0], signal.SIGSTOP)
    wait_until(lambda: is_frozen(program.seen[0]))  # until then it may still greet somebody
    monkeypatch.setattr(application, "_GREETING_SECONDS_MAX", 0.1)
    monkeypatch.setattr(application, "_START_SECONDS_MAX", 0.3)
    try:
        with pytest.raises(UnavailableError, match="did not start within"):
            program.application().do("see", {})
        end_applications(RUN_URI)
        assert ".lock" not in files()
    finally:
        os.kill(program.seen[0], signal.SIGKILL)


def test_where_every_application_is_at_work_no_more_are_started(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_APPLICATIONS_MAX", 1)
    task, thread, _ = beating(program)
    with pytest.raises(UnavailableError, match="1 Spark applications of run"):
        program.application().do("see", {})
    task.kill()
    thread.join(20)


def test_tasks_that_come_while_an_application_starts_are_both_served(program: Program) -> None:
    done: list[tuple[int | None, str]] = []
    tasks = [program.application() for _ in range(2)]
    threads = [threading.Thread(target=lambda task=task: done.append(task.do("see", {}))) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [(0, ""), (0, "")]


def test_a_task_whose_application_serves_another_starts_one_of_its_own(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started an application need not be the first whom it greets."""
    really, may_look, done = application._greeted, threading.Event(), list[tuple[int | None, str]]()
    starter = threading.Thread(target=lambda: done.append(program.application().do("see", {})))
    monkeypatch.setattr(
        application,
        "_greeted",
        lambda address: (
            really(address) if may_look.is_set() or threading.current_thread() is not starter else None
        ),
    )
    starter.start()
    wait_until(lambda: bool(program.pids()))
    other, thread, _ = beating(program)
    may_look.set()
    starter.join(60)
    assert done == [(0, "")]
    other.kill()
    thread.join(20)


def test_what_a_step_says_is_logged_while_it_goes_on(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bool] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "about a minute" in record.getMessage():
                heard.append(task._asked is not None and not task._asked.closed)
                (program.folder / "heard").touch()

    task = program.application()
    monkeypatch.setattr(application.log, "handlers", [Listening()])
    with caplog.at_level(logging.INFO):
        assert task.do("talk", {}) == (0, "")
    assert heard == [True]


def test_a_line_that_is_not_whole_yet_waits_for_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "said"
    path.write_bytes(b"old\nha")
    said = application._Log(path, 4)
    with caplog.at_level(logging.INFO):
        said.forward()
        with path.open("ab") as more:
            more.write(b"lf\nwhole\n\xff\n")
        said.forward()
        said.forward()
    assert [record.getMessage() for record in caplog.records] == ["half", "whole", "\ufffd"]


def test_what_an_application_that_was_killed_leaves_is_cleared_up(program: Program) -> None:
    program.application().do("see", {})
    os.kill(program.seen[0], signal.SIGKILL)
    wait_until(lambda: not alive(program.seen[0]))
    assert ".lock" in files()
    for log in Path(tempfile.gettempdir()).rglob("*.log"):
        log.unlink()
    end_applications(RUN_URI)
    assert files() <= {".sock"}


def test_an_application_that_has_ended_is_no_zombie_of_its_worker(program: Program) -> None:
    task = program.client()
    task.do("last", {})
    wait_until(lambda: not Path(f"/proc/{program.seen[0]}").exists())


@pytest.mark.parametrize(("length", "is_ours"), [(30, True), (45, False), (90, False)])
def test_where_the_name_of_a_socket_would_be_too_long_the_folder_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch, length: int, is_ours: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="dredge-") as short:
        place = Path(short) / ("x" * (length - len(short) - 1))
        place.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        folder = application._folder()
    assert folder.parent == (place if is_ours else Path("/tmp"))


def test_a_folder_of_another_user_is_refused(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made it can read what is in it."""
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(ConfigError, match=f"must be a folder of user {me + 1}"):
        application._folder()
