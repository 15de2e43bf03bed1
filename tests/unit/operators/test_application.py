"""The application of a run, as its tasks see it: found, started, busy, lost, ended. Its steps need no Spark."""

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.spark import job_error
from dredge.errors import ConfigError, RefusedError
from tests.support.spark_application import (
    ROOT,
    RUN_URI,
    Program,
    alive,
    beating,
    programs,
    wait_until,
)

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "aws-hunter2"}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with programs(tmp_path) as made:
        yield made


def sockets() -> list[Path]:
    return sorted(Path(tempfile.gettempdir()).rglob("*.sock"))


def test_steps_of_a_run_share_one_application_which_the_last_one_ends(program: Program) -> None:
    pids = []
    for step in ("see", "see", "last"):
        assert program.application().do(step, {}) == (0, "")
        pids.append(program.seen[0])
    assert len(set(pids)) == 1
    wait_until(lambda: not alive(pids[0]))
    assert program.application().do("see", {}) == (0, "")  # a cleared step starts it again
    assert program.seen[0] != pids[0]


def test_secrets_come_over_the_socket_and_are_there_while_their_step_runs(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        program.application().do("see", KEYS | {"SECRET": "lakefs-hunter2"})
        pid, secret, store_secret = program.seen
        command = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        program.application().do("see", KEYS | {"SECRET": "another"})
    assert (secret, store_secret) == ("lakefs-hunter2", "aws-hunter2")
    assert program.seen == (pid, "another", "aws-hunter2")
    assert b"hunter2" not in command
    assert "hunter2" not in caplog.text
    assert [record.getMessage() for record in caplog.records].count("it did see") == 2, "a line for each"
    for path in Path(tempfile.gettempdir()).rglob("*.log"):
        assert "hunter2" not in path.read_text()
    program.application().do("see", {})
    assert program.seen == (pid, "None", "None")


def test_nobody_else_can_reach_the_application(program: Program) -> None:
    program.application().do("see", {})
    (address,) = sockets()
    assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
    address.parent.chmod(0o755)
    with pytest.raises(ConfigError):
        program.application().do("see", {})
    address.parent.chmod(0o700)


def test_a_folder_that_is_somebodys_link_is_refused(program: Program, tmp_path: Path) -> None:
    (Path(tempfile.gettempdir()) / f"dredge-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(ConfigError):
        program.application().do("see", {})
    assert program.beats() == 0


def test_who_only_looks_neither_ends_an_application_nor_keeps_it_busy(program: Program) -> None:
    program.application().do("see", {})
    (address,) = sockets()
    pid = program.seen[0]
    with Client(str(address), "AF_UNIX") as line:
        assert json.loads(line.recv_bytes()) == {"free": True, "group": os.getpgid(pid)}
    for _ in range(20):
        Client(str(address), "AF_UNIX").close()
    wait_until(lambda: program.application().do("see", {}) == (0, "") and program.seen[0] == pid)
    assert address in sockets()


def test_error_of_a_step_comes_back_and_the_next_try_starts_afresh(program: Program) -> None:
    program.application().do("see", {})
    code, said = program.application().do("refuse", {})
    error = job_error("subtract", code, [said])
    assert type(error) is RefusedError
    before = program.seen[0]
    wait_until(lambda: not alive(before))
    program.application().do("see", {})
    assert program.seen[0] != before


def test_step_ends_with_the_task_that_asked_for_it(program: Program) -> None:
    """A task whose worker was lost: nobody watches the step any more, so it must not go on deleting."""
    asked = json.dumps(["beat", RUN_URI, program.command, str(ROOT), tempfile.gettempdir()])
    script = (
        "import json, sys, tempfile\n"
        "from airflow_dredge.operators.application import SparkApplication\n"
        f"step, run, command, root, tempfile.tempdir = json.loads({asked!r})\n"
        "SparkApplication(run, command, {'PYTHONPATH': root}).do(step, {})\n"
    )
    task = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_until(lambda: program.beats() > 0)
    task.send_signal(signal.SIGKILL)
    task.wait()
    wait_until(lambda: sockets() == [], 10)
    before = program.beats()
    assert program.application().do("see", {}) == (0, "")  # in a new one
    assert program.beats() == before


def test_a_client_of_connect_serves_the_tasks_after_the_one_that_started_it(program: Program) -> None:
    asked = json.dumps([sys.executable, str(program.script), RUN_URI, str(ROOT), tempfile.gettempdir()])
    script = (
        "import json, os, sys, tempfile\n"
        "from operators.application import SparkApplication\n"
        f"python, script, run, root, tempfile.tempdir = json.loads({asked!r})\n"
        "command = [python, script, '--remote', 'sc://nowhere']\n"
        "SparkApplication(run, command, {'PYTHONPATH': root}).do('see', {})\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    first = program.seen[0]
    time.sleep(1.5)  # a driver would have noticed by now that its parent is gone
    assert program.client().do("see", {}) == (0, "")
    assert program.seen[0] == first
    assert program.client().do("last", {}) == (0, "")
    wait_until(lambda: not alive(first))


def test_what_lets_a_client_in_is_in_no_argument_and_no_name(program: Program) -> None:
    program.client(SPARK_CONNECT_AUTHENTICATE_TOKEN="hunter2").do("see", {})
    pid = program.seen[0]
    assert b"hunter2" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert b"AUTHENTICATE_TOKEN=hunter2" in Path(f"/proc/{pid}/environ").read_bytes()
    program.client(SPARK_CONNECT_AUTHENTICATE_TOKEN="renewed").do("see", {})
    assert program.seen[0] == pid


def test_killing_a_task_ends_its_step_and_no_process_is_left(program: Program) -> None:
    program.application().do("see", {})
    pid = program.seen[0]
    task, thread, codes = beating(program)
    task.kill()
    thread.join(20)
    assert codes in ([None], [143])
    assert not alive(pid)
    assert (program.folder / "ended").exists(), "it had time to end by itself"
    task.kill()  # once more does nothing


def test_runs_share_nothing_and_neither_do_other_settings(program: Program) -> None:
    pids = set()
    for task in (
        program.application(),
        program.application("file:///nowhere/another"),
        program.application(HADOOP_CONF_DIR="/etc/hadoop"),
    ):
        task.do("see", {})
        pids.add(program.seen[0])
    assert len(pids) == 3
    end_applications("file:///nowhere/another")
    wait_until(lambda: len(sockets()) == 2)


def test_an_application_without_work_ends_itself(program: Program) -> None:
    program.application(IDLE="0.3").do("see", {})
    wait_until(lambda: not alive(program.seen[0]), 10)
    assert sockets() == []


def test_an_application_that_was_killed_is_replaced(program: Program) -> None:
    program.application().do("see", {})
    os.kill(program.seen[0], signal.SIGKILL)
    assert program.application().do("see", {}) == (0, "")


def test_tasks_that_come_while_an_application_starts_are_both_served(program: Program) -> None:
    done: list[tuple[int | None, str]] = []
    tasks = [program.application() for _ in range(2)]
    threads = [threading.Thread(target=lambda task=task: done.append(task.do("see", {}))) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [(0, ""), (0, "")]
