"""The part of a preflight that needs Spark: it starts, and executors have the driver's Python and Dredge."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from airflow_dredge.operators.application import end_applications
from dredge import __version__
from dredge.errors import DredgeError, UnavailableError
from dredge.runs.preflight import Line, line_of, ok

if TYPE_CHECKING:
    from airflow_dredge.operators.spark import SparkJobOperator

SECONDS_MAX = 120.0
"""For a start of Spark, an environment that is unpacked, and one round of tasks."""
_CHECK = "spark"


def check_spark(operator: SparkJobOperator, seconds_max: float = SECONDS_MAX) -> Line:
    """Let executors load Dredge, in an application that ends then; gives the line about it.

    :param operator: of the step ``check_executors``; says how Spark is started
    :param seconds_max: after which the application is ended
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        operator.on_kill()

    timer = threading.Timer(seconds_max, end)
    timer.start()
    try:
        operator.do_step({})
    except DredgeError as error:
        if not late.is_set():
            return line_of(_CHECK, error)
        todo = "See in Spark's pages whether executors are free, and whether they reach this machine."
        text = f"no executor did its task within {seconds_max:.0f} s"
        return Line(_CHECK, "error", text, todo, UnavailableError.kind)
    finally:
        timer.cancel()
        end_applications(operator.run_uri)
    return ok(_CHECK, f"executors did their tasks, with the driver's Python and Dredge {__version__}")
