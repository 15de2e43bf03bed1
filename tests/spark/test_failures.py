from __future__ import annotations

import pytest

from airflow_dredge.spark_jobs.failures import spark_reason

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 5, in main
ModuleNotFoundError: No module named 'dredge'

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""
LOST = """An error occurred while calling o212.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times:
"""
CASES = {
    "a worker's own exception": (WORKER, "ModuleNotFoundError: No module named 'dredge'"),
    "a lost worker": (
        LOST,
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times",
    ),
    "anything else": ("[SESSION_CLOSED] no such session.\nmore", "[SESSION_CLOSED] no such session"),
    "nothing": ("", "Exception"),
}


@pytest.mark.parametrize("case", CASES)
def test_reason_is_the_line_that_tells_most(case: str) -> None:
    text, reason = CASES[case]
    assert spark_reason(Exception(text)) == reason
