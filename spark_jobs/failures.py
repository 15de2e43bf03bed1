"""One line out of Spark's many: why a job failed."""

from __future__ import annotations

import re

_PYTHON_CAUSE = re.compile(r"^(?:[\w.]*\.)?\w+(?:Error|Exception|Interrupt)(?:: .*)?$")
_LENGTH_MAX = 500


def spark_reason(error: BaseException) -> str:
    """Return the line of an error of Spark's that tells most.

    That is a worker's own exception if there is one, else why Spark gave the job up, else the first line.
    """
    lines = [line.strip(" :.\t") for line in str(error).partition("JVM stacktrace")[0].splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    chosen = lines[:1] or [type(error).__name__]
    if any("Python worker" in line for line in lines) and any("Traceback" in line for line in lines):
        chosen = [line for line in lines if _PYTHON_CAUSE.match(line)][-1:] or chosen
    else:
        chosen = [line for line in lines if "Job aborted due to stage failure" in line][:1] or chosen
    return chosen[0][:_LENGTH_MAX].rstrip(" .:")
