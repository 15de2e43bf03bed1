"""Spark's Python daemon, which loads what tasks have in common before it forks its workers.

Spark starts one daemon for each executor, and that one forks a worker for each task at a time. Spark's own is bare, so
every worker loads pyarrow, the compiled kernels and the collector by itself: some three processor seconds and a hundred
MiB each. Workers forked from this one share both.

It is what `spark.python.daemon.module` names where the driver is the whole cluster (`session.LOCAL_DEFAULTS`). A Spark
Connect server may be started with the same setting; executors that lack this package must not.

A Connect server starts a daemon for each session, and so for each run, and keeps all of them as long as it lives. This
one ends by itself when it has had no worker for a while; Spark starts another when a session wants workers again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable

MODULE = "airflow_dredge.spark_jobs.daemon"
#: Nothing may run beside the thread that forks: Arrow's allocator would have one of its own, and so would BLAS.
WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}

#: Between two looks for workers. Spark itself ends a worker that had no task for a minute.
LOOK_EVERY_SECONDS = 30.0


def load_common() -> None:
    """Load what the tasks of a run have in common, compiled kernels included; opens and starts nothing."""
    import pyarrow as pa

    from dredge.compiled import kernels
    from dredge.gc import steps

    steps.load_all()
    pa.array(["a"])
    kernels()


def end_when_idle(look_every_seconds: float = LOOK_EVERY_SECONDS) -> None:
    """Let this process end when two looks in a row find no worker.

    The alarm is this process's alone: what it forks has the handler, and no timer.

    Args:
        look_every_seconds: between two looks, in seconds.
    """
    idle_looks = 0

    def look(*_: object) -> None:
        nonlocal idle_looks
        idle_looks = 0 if _has_children() else idle_looks + 1
        if idle_looks == 2:
            signal.setitimer(signal.ITIMER_REAL, 0)  # an interpreter that ends no longer knows the handler
            sys.exit()

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, look_every_seconds, look_every_seconds)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def main(load: Callable[[], None] = load_common, look_every_seconds: float = LOOK_EVERY_SECONDS) -> None:
    """Load, then be Spark's own daemon; it forks before anything else happens in a worker.

    Args:
        load: what to load.
        look_every_seconds: see `end_when_idle`.
    """
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    # Spark reads the daemon's port from its standard output. What cannot be loaded here, a task will say.
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Exception):
        load()
    gc.collect()
    gc.freeze()  # or each worker's first collection would copy every page
    from pyspark import daemon

    end_when_idle(look_every_seconds)
    daemon.manager()


if __name__ == "__main__":
    main()
