"""Spark's Python daemon, with the common modules of tasks imported before it forks its workers.

Spark starts one daemon an executor, and the daemon forks a worker for each parallel task. With Spark's own
daemon every worker imports pyarrow, the compiled kernels and the collector itself: some three CPU seconds and
a hundred MiB each. Workers of this daemon share both.

`spark.python.daemon.module` names this module for a local master (`session.LOCAL_DEFAULTS`). A Spark Connect
server may be started with the same setting, but not if its executors lack this package.

A Connect server starts a daemon for each session, and so for each run, and keeps it. This daemon ends after
some time without workers; Spark starts another one if needed.
"""

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path

from dredge.process import set_up_libraries, trim_memory

MODULE = "airflow_dredge.spark_jobs.daemon"
#: Seconds between two checks. Spark itself ends a worker after a minute without a task.
CHECK_SECONDS = 10.0


def use_installed_spark(path: list[str] = sys.path) -> None:
    """Import Spark's modules from their package, not from the archives in it that Spark puts before it on the path.

    An archive has no compiled modules, so its import takes 0.8 s more. And each worker would read the directories of
    archives on the path again: 14 MiB and 0.13 s.
    """
    found = PathFinder.find_spec("pyspark", [place for place in path if Path(place).is_dir()])
    if found is not None and found.origin is not None:
        package = Path(found.origin).parent
        path[:] = [place for place in path if not Path(place).is_relative_to(package)]
        sys.path_importer_cache.clear()


def load_common() -> None:
    """Import the common modules of tasks and compile the kernels, without opening connections."""
    import pyarrow as pa

    from dredge.compiled import kernels
    from dredge.gc import steps

    steps.load_all()
    pa.array(["a"])
    kernels()


def load_for_workers() -> None:
    """Import the modules of tasks, Spark's worker (12 MiB), and boto3 with its description of S3 (20 MiB, 0.3 s)."""
    load_common()
    importlib.import_module("pyspark.worker")
    from dredge.storage import StorageOptions
    from dredge.storage.s3.access import access_to

    nowhere = StorageOptions("http://localhost", "us-east-1", access_key_id="-", secret_access_key="-")
    access_to(nowhere, "bucket")  # with a region, nothing is sent


def end_when_idle(check_seconds: float = CHECK_SECONDS) -> None:
    """End this process after two checks in a row without workers.

    Forked workers inherit the handler, but not the timer.
    """
    idle_checks = 0

    def check(*_: object) -> None:
        nonlocal idle_checks
        idle_checks = 0 if _has_children() else idle_checks + 1
        if idle_checks == 2:
            signal.setitimer(signal.ITIMER_REAL, 0)  # the handler is invalid during interpreter shutdown
            sys.exit()

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, check_seconds, check_seconds)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def acknowledge_at_once(work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Return a worker's function for a task that acknowledges what Spark sends: on a reused connection Spark's second
    message of each task otherwise waits 40 ms for it (Nagle's algorithm)."""

    def worker(connection: socket.socket, authenticated: bool) -> int:
        with contextlib.suppress(AttributeError, OSError):  # not on Linux, or not TCP
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return work(connection, authenticated)

    return worker


def main(load: Callable[[], None] = load_for_workers, check_seconds: float = CHECK_SECONDS) -> None:
    """Import, then run Spark's own daemon."""
    set_up_libraries()  # no threads beside the one that forks
    use_installed_spark()
    # Spark reads the daemon's port from stdout. A task will report an import error.
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Exception):
        load()
    from pyspark import daemon

    gc.collect()
    gc.freeze()  # otherwise the first collection of each worker copies every page
    trim_memory()  # otherwise each worker copies freed pages to return them
    end_when_idle(check_seconds)
    daemon.worker = acknowledge_at_once(daemon.worker)  # type: ignore[assignment]  # without names of arguments
    daemon.manager()


if __name__ == "__main__":
    main()
