"""Errors of tasks: which errors Airflow retries, and the XCom with the first error for later tasks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSensorTimeout

from airflow_dredge.operators.airflow_versions import HAS_RETRY_POLICY
from dredge.errors import (
    ConfigError,
    ConflictError,
    DefectError,
    DredgeError,
    FormatError,
    NotFoundError,
    PartialError,
    RefusedError,
    UnavailableError,
)
from dredge.process import search_few_cycles, set_up_libraries, trim_memory
from dredge.runs.failures import defect

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def fail_for_good(error: Exception) -> None:
    """Raise ``AirflowFailException`` for an error that needs no retry, on Airflow without retry policies."""
    if not HAS_RETRY_POLICY and isinstance(error, DredgeError) and not error.is_retried:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def _policy() -> Any:
    """Return the retry policy; None before Airflow 3.3."""
    if not HAS_RETRY_POLICY:
        return None
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

    def rule(families: tuple[type[DredgeError], ...], reason: str, minutes: int | None = None) -> Any:
        return RetryRule(
            exception=[f"{family.__module__}.{family.__name__}" for family in families],
            action=RetryAction.RETRY if families[0].is_retried else RetryAction.FAIL,
            retry_delay=None if minutes is None else timedelta(minutes=minutes),
            reason=reason,
        )

    return ExceptionRetryPolicy(
        rules=[
            rule((RefusedError,), "refused by a safety check, which would refuse a retry too"),
            rule((ConfigError, NotFoundError), "the input is wrong; correct it and clear the task"),
            rule((FormatError,), "damaged or unknown file format; nothing more was deleted"),
            rule(
                (PartialError,),
                "partly done; fix the cause in the message, then clear the task to continue",
            ),
            rule(
                (UnavailableError, ConflictError),
                "a service is busy or down; a retry continues the step",
                minutes=2,
            ),
            # Often a transient error of a library; a retry is safe.
            rule((DefectError,), "a defect of Dredge, please report it; a retry is safe", minutes=1),
        ]
    )


#: Argument `retry_policy` of tasks. Refusals, wrong input and damaged files fail at once; a busy service and an
#: unexpected error are retried; other exceptions follow the task's own `retries`.
RETRY_BY_FAMILY = _policy()


#: Arguments of every task: enough retries for a restart of a server.
RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(minutes=1)}
if HAS_RETRY_POLICY:
    RETRIES["retry_policy"] = RETRY_BY_FAMILY


log = logging.getLogger(__name__)


@functools.cache
def _own_process() -> None:
    """Set up the process of a task, once: `dag.test()` runs more than one task in a process."""
    set_up_libraries()
    search_few_cycles()


#: XCom of a failed task: its error message. Airflow clears it on a retry.
FAILURE = "failure"


def reported[T](execute: Callable[..., T]) -> Callable[..., T]:
    """Decorate an operator's ``execute`` or its continuation: an error is pushed to XCom for ``first_failure``.

    If Airflow has no retry policies, an error that no retry can solve becomes ``AirflowFailException``. An
    unexpected exception becomes a ``DefectError``; Airflow's own exceptions pass. Cycles of objects are searched for
    rarely meanwhile.
    """

    @functools.wraps(execute)
    def reporting(self: BaseOperator, context: Context, **more: Any) -> T:
        _own_process()
        try:
            return execute(self, context, **more)
        except (DredgeError, AirflowSensorTimeout) as error:
            _leave(context, error)
            fail_for_good(error)
            raise
        except (AirflowException, MemoryError):
            raise
        except Exception as error:
            log.exception("%s: unexpected error", self.task_id)
            found = defect(f"task {self.task_id}", error)
            _leave(context, found)
            raise found from error
        finally:
            trim_memory()

    return reporting


def first_failure(operator: BaseOperator, context: Context) -> str:
    """Return a sentence with the first error of the upstream tasks."""
    dag = operator.get_dag()
    before = operator.get_flat_relative_ids(upstream=True) if dag is not None else set()

    def depth(task_id: str) -> tuple[int, str]:
        assert dag is not None
        return len(dag.get_task(task_id).get_flat_relative_ids(upstream=True)), task_id

    for task_id in sorted(before, key=depth):
        found = context["ti"].xcom_pull(task_ids=task_id, key=FAILURE)
        if found:
            return f"First error, in task {task_id}: {found}"
    return (
        "An upstream task ended without an error message, or a person marked the task or the run as failed. See the"
        " log of the first failed task."
    )


def _leave(context: Context, error: Exception) -> None:
    try:
        context["ti"].xcom_push(FAILURE, str(error) or type(error).__name__)
    except Exception as found:
        # The task must fail with its own error.
        log.warning("the error of this task could not be stored for later tasks: %s", found)
