"""A step over a Spark Connect server in a child of its task: what it is told, killed, and how its error comes back."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from airflow_dredge.operators.connect import TOKEN, ConnectJob, remote_of_run
from airflow_dredge.operators.lakefs.slice_listing import LakeFSSliceListingOperator
from airflow_dredge.operators.spark import job_error
from dredge.errors import DredgeError, RefusedError, UnavailableError
from tests.support.airflow import FILTERS, connections

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


class Alone(LakeFSSliceListingOperator):
    """Its step is a child of its task."""

    step = "slice_listing"
    shares_application = False


def test_connect_address_has_one_session_for_all_steps_of_a_run_and_no_token() -> None:
    first, token = remote_of_run("sc://spark:15002/;user_id=me;token=hunter2;use_ssl=true", "s3://b/run1")
    again, _ = remote_of_run("sc://spark:15002/;user_id=me", "s3://b/run1")
    other, _ = remote_of_run("sc://spark:15002", "s3://b/run2")
    assert token == "hunter2"
    assert "hunter2" not in first
    assert first.startswith("sc://spark:15002/;user_id=me;use_ssl=true;session_id=")
    assert again.rpartition("=")[2] == first.rpartition("=")[2]
    assert other.rpartition("=")[2] != first.rpartition("=")[2]


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
here = Path(__file__).parent
seen = [" ".join(sys.argv), os.environ.get("{token}", ""), os.environ.get("SECRET", "")]
(here / "seen").write_text("|".join(seen))
{body}
"""


def script(folder: Path, body: str) -> Path:
    path = folder / "job.py"
    path.write_text(SCRIPT.format(token=TOKEN, body=body))
    return path


def test_connect_job_gets_token_and_secrets_by_environment(tmp_path: Path) -> None:
    job = ConnectJob(
        script(tmp_path, "print('dredge: refused: no'); sys.exit(3)"),
        ["--step", "x", "--run", "s3://b/run"],
        "s3://b/run",
        "sc://h:1/;token=hunter2",
        {"SECRET": "s"},
    )
    assert job.run() == 3
    arguments, token, secret = (tmp_path / "seen").read_text().split("|")
    assert "--step x --run s3://b/run --remote sc://h:1/;session_id=" in arguments
    assert "hunter2" not in arguments
    assert (token, secret) == ("hunter2", "s")
    assert isinstance(job_error("x", 3, job.last_lines), RefusedError)


@pytest.mark.parametrize(
    ("body", "by", "after"),
    [
        ("time.sleep(60)", signal.SIGTERM, 30),
        (
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); (here / 'deaf').touch(); time.sleep(60)",
            signal.SIGKILL,
            0.5,
        ),
    ],
    ids=["obeys", "ignores"],
)
def test_kill_ends_a_connect_job(
    tmp_path: Path, body: str, by: signal.Signals, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_dredge.operators.connect._KILL_AFTER_SECONDS", after)
    job = ConnectJob(script(tmp_path, body), [], "s3://b/run", "sc://h:1", {})
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(job.run()))
    thread.start()
    wait_for(tmp_path / ("deaf" if "deaf" in body else "seen"))
    job.kill()
    thread.join(10)
    assert not thread.is_alive()
    assert codes == [-by]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.1)


SERVER = {"conn_type": "spark_connect", "host": "sc://h", "port": 15002, "password": "hunter2"}


def over_connect(tmp_path: Path, body: str) -> Alone:
    return Alone(
        task_id="slice_listing", run_uri="s3://b/run", application=str(script(tmp_path, body)), env_vars=None
    )


def test_over_connect_a_step_with_an_application_of_its_own_is_a_child_of_its_task(tmp_path: Path) -> None:
    operator = over_connect(tmp_path, "")
    with connections(spark_connect_default=SERVER):
        operator.connect({"SECRET": "s"})
    arguments, token, secret = (tmp_path / "seen").read_text().split("|")
    assert "--step slice_listing --run s3://b/run --remote sc://h:15002/;" in arguments
    assert (token, secret) == ("hunter2", "s")


@pytest.mark.parametrize(
    ("body", "family", "text"),
    [
        ("print('dredge: refused: no'); sys.exit(3)", RefusedError, "slice_listing: no"),
        ("sys.exit(7)", UnavailableError, "ended with code 7 and did not say why"),
    ],
)
def test_over_connect_the_error_of_a_child_comes_back(
    tmp_path: Path, body: str, family: type[DredgeError], text: str
) -> None:
    operator = over_connect(tmp_path, body)
    with connections(spark_connect_default=SERVER), pytest.raises(family, match=text):
        operator.connect({})


def test_over_connect_the_kill_of_a_task_ends_its_child(tmp_path: Path) -> None:
    operator = over_connect(tmp_path, "time.sleep(60)")
    found: list[Exception] = []

    def work() -> None:
        try:
            operator.connect({})
        except UnavailableError as error:
            found.append(error)

    with connections(spark_connect_default=SERVER):
        thread = threading.Thread(target=work)
        thread.start()
        wait_for(tmp_path / "seen")
        operator.on_kill()
        thread.join(20)
    assert "did not say why" in str(found)


def test_the_last_words_of_a_job_that_talks_much_are_kept_and_no_more(tmp_path: Path) -> None:
    job = ConnectJob(
        script(tmp_path, "print(chr(0xfffd)); [print(n) for n in range(80)]"),
        [],
        "s3://b/run",
        "sc://h:1",
        {},
    )
    assert job.run() == 0
    assert [*job.last_lines] == [str(number) for number in range(30, 80)]


def test_bytes_that_are_no_text_end_no_job(tmp_path: Path) -> None:
    job = ConnectJob(
        script(tmp_path, r"sys.stdout.buffer.write(b'\xff\n'); print('end')"),
        [],
        "s3://b/run",
        "sc://h:1",
        {},
    )
    assert job.run() == 0
    assert [*job.last_lines][-1] == "end"


def test_a_job_is_killed_with_its_children_and_once_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who kills a task may do so again, and before the job was started."""
    monkeypatch.setattr("airflow_dredge.operators.connect._KILL_AFTER_SECONDS", 0.3)
    deaf = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "(here / ('child' if child else 'deaf')).write_text(str(child))\n"
        "time.sleep(60)"
    )
    job = ConnectJob(script(tmp_path, deaf), [], "s3://b/run", "sc://h:1", {})
    job.kill()
    thread = threading.Thread(target=job.run)
    thread.start()
    wait_for(tmp_path / "child")
    job.kill()
    thread.join(20)
    assert not thread.is_alive(), "its child has its output, and would go on talking"
    job.kill()


def test_an_address_keeps_what_the_user_set_and_has_the_session_of_the_run() -> None:
    address, token = remote_of_run("sc://h:1/;session_id=old;user_id=me;;token=t", "s3://b/run")
    assert (address.count("session_id="), token) == (1, "t")
    assert "old" not in address
    assert "user_id=me" in address
    assert remote_of_run("sc://h:1", "s3://b/run")[1] is None
