"""Loaded once by the scheduler, so its forked tasks need not import these modules again."""

from __future__ import annotations

import airflow_dredge.dags.lakefs_gc  # noqa: F401
import dredge.storage.local  # noqa: F401
from dredge.compiled import kernels

kernels()
