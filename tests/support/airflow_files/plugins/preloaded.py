"""Loaded once by the scheduler, so its forked tasks need not import these modules again. They write their stacks to
`stacks.log` at a signal, for a test that waits in vain.
"""

import faulthandler
import gc
import os
import signal
from pathlib import Path

import pyarrow.parquet  # noqa: F401

import airflow_dredge.dags.lakefs_gc  # noqa: F401
import dredge.storage.local  # noqa: F401
from dredge.compiled import kernels
from dredge.gc import steps

kernels()
steps.load_all()
gc.freeze()
faulthandler.register(signal.SIGUSR1, (Path(os.environ["AIRFLOW_HOME"]) / "stacks.log").open("ab"))
