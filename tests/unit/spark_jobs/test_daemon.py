"""A daemon without workers ends by itself, and never one that has any."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dredge.spark_jobs import daemon as daemon_module

LOOK_EVERY_SECONDS = 0.05
PROGRAM = f"from airflow_dredge.spark_jobs import daemon; daemon.main(lambda: None, {LOOK_EVERY_SECONDS})"


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def port_of(daemon: subprocess.Popen[bytes]) -> int:
    assert daemon.stdout is not None
    return int.from_bytes(daemon.stdout.read(4), "big")


def test_a_daemon_that_nobody_wants_ends(daemon: subprocess.Popen[bytes]) -> None:
    port = port_of(daemon)
    assert daemon.wait(30) in (0, 1)  # Spark's own way out says 1
    with socket.socket() as asking:
        assert asking.connect_ex(("127.0.0.1", port)) != 0  # what tells Spark to start another


def test_a_daemon_with_a_worker_stays(daemon: subprocess.Popen[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", port_of(daemon))):
        time.sleep(10 * LOOK_EVERY_SECONDS)
        assert daemon.poll() is None
    daemon.wait(30)  # and once the worker has gone, it ends


def test_a_worker_acknowledges_messages_of_a_used_connection_at_once() -> None:
    seen = []

    def work(connection: socket.socket, authenticated: bool) -> int:
        is_tcp = connection.family == socket.AF_INET
        at_once = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) if is_tcp else None
        seen.append((at_once, authenticated))
        return 7

    worker = daemon_module.acknowledge_at_once(work)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        connection, _ = server.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            assert worker(connection, True) == 7
    local, other = socket.socketpair()
    with local, other:
        assert worker(local, False) == 7
    assert seen == [(1, True), (None, False)]


def test_what_workers_share_is_loaded_without_threads_and_without_clients_that_hang_after_a_fork() -> None:
    program = (
        "import os, sys; from dredge.process import set_up_libraries; set_up_libraries();"
        "from airflow_dredge.spark_jobs import daemon; daemon.load_for_workers(); m = {*sys.modules};"
        "print(len(os.listdir('/proc/self/task')), {'botocore.client', 'pyspark.worker'} <= m, 'obstore' in m)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True", "False"]


def test_spark_is_imported_from_its_package_not_from_an_archive_in_it(tmp_path: Path) -> None:
    (package := tmp_path / "pyspark").mkdir()
    (package / "__init__.py").touch()
    others = [str(tmp_path / "pyspark_more.zip"), str(tmp_path)]
    path = [str(package / "pyspark.zip"), *others]
    daemon_module.use_installed_spark(path)
    assert path == others
