"""Spark's Python daemon, which loads what tasks have in common before it forks its workers.

Spark starts one daemon for each executor, and that one forks a worker for each task at a time. Spark's own is bare, so
every worker loads pyarrow, the compiled kernels and the collector by itself: some three processor seconds and a hundred
MiB each. Workers forked from this one share both.

It is what `spark.python.daemon.module` names where the driver is the whole cluster (`session.LOCAL_DEFAULTS`). A Spark
Connect server may be started with the same setting; executors that lack this package must not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys

MODULE = "airflow_dredge.spark_jobs.daemon"
#: Nothing may run beside the thread that forks: Arrow's allocator would have one of its own, and so would BLAS.
WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


def load_common() -> None:
    """Load what the tasks of a run have in common, compiled kernels included; opens and starts nothing."""
    import pyarrow as pa

    from dredge.gc import steps
    from dredge.hashing import hash64

    for name in steps.__all__:
        getattr(steps, name)
    hash64(pa.array(["a"]))


def main() -> None:
    """Load, then be Spark's own daemon; it forks before anything else happens in a worker."""
    for name, value in WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    # Spark reads the daemon's port from its standard output. What cannot be loaded here, a task will say.
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(Exception):
        load_common()
    gc.collect()
    gc.freeze()  # or each worker's first collection would copy every page
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
