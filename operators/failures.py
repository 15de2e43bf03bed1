"""Errors of tasks: how Airflow retries them, and the XCom in which later tasks find the first one."""

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
from dredge.runs.defects import defect

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def fail_for_good(error: Exception) -> None:
    """Raise Airflow's error without a retry for an error that a retry cannot help; a retry policy does so by itself.

    :param error: of a task
    :raises AirflowFailException: this Airflow has no retry policies, and the task must not be tried again
    """
    if not HAS_RETRY_POLICY and isinstance(error, DredgeError) and not error.is_retried:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def _policy() -> Any:
    """Return the rules; None before Airflow 3.3, which has none."""
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
            rule((RefusedError,), "a safety check said no; a retry would say the same"),
            rule((ConfigError, NotFoundError), "the input is wrong; correct it and clear the task"),
            rule((FormatError,), "bytes that cannot be trusted; nothing more was deleted"),
            rule(
                (PartialError,),
                "a part is done, the rest needs what the message says; then clear the task: it does the rest",
            ),
            rule(
                (UnavailableError, ConflictError),
                "a service is busy or down; the step goes on where it stopped",
                minutes=2,
            ),
            # It may be a hiccup of some library that we do not translate yet: to try again is safe, and often helps.
            rule(
                (DefectError,), "a defect of Dredge, please report it; the step may be run again", minutes=1
            ),
        ]
    )


#: Safety stops, wrong input and bytes that cannot be trusted fail at once: a retry would say the same. A
#: store or server that is busy or down gets time, and so does what nobody foresaw. All else follows the task's
#: own `retries`.
RETRY_BY_FAMILY = _policy()
"""Argument `retry_policy` of tasks, see `by_family`."""


def by_family() -> dict[str, Any]:
    """Return the default arguments of tasks that decide about retries."""
    return {"retry_policy": RETRY_BY_FAMILY} if HAS_RETRY_POLICY else {}


log = logging.getLogger(__name__)

#: XCom of a task that failed: its error in words. Airflow forgets it when the task is tried again.
FAILURE = "failure"


def reported[T](execute: Callable[..., T]) -> Callable[..., T]:
    """Decorate an operator's ``execute``, or what it goes on with: leave the error where ``first_failure`` finds it.

    On an Airflow without retry policies, an error that must not be tried again becomes Airflow's
    ``AirflowFailException``. An exception that nobody foresaw becomes a ``DefectError``; Airflow's own pass as they
    are.

    :param execute: the method
    """

    @functools.wraps(execute)
    def reporting(self: BaseOperator, context: Context, **more: Any) -> T:
        try:
            return execute(self, context, **more)
        except (DredgeError, AirflowSensorTimeout) as error:
            _leave(context, error)
            fail_for_good(error)
            raise
        except (AirflowException, MemoryError):
            raise
        except Exception as error:
            log.exception("%s: an error that nobody foresaw", self.task_id)
            found = defect(f"task {self.task_id}", error)
            _leave(context, found)
            raise found from error

    return reporting


def first_failure(operator: BaseOperator, context: Context) -> str:
    """Return a sentence that says why the first of the tasks before this one failed.

    :param operator: of this task
    :param context: of this task
    """
    dag = operator.get_dag()
    before = operator.get_flat_relative_ids(upstream=True) if dag is not None else set()

    def depth(task_id: str) -> tuple[int, str]:
        assert dag is not None
        return len(dag.get_task(task_id).get_flat_relative_ids(upstream=True)), task_id

    for task_id in sorted(before, key=depth):
        found = context["ti"].xcom_pull(task_ids=task_id, key=FAILURE)
        if found:
            return f"The first error is that of task {task_id}: {found}"
    return (
        "A task before this one ended before it could say why, or a person marked it or the run as failed; see the"
        " first one that is red."
    )


def _leave(context: Context, error: Exception) -> None:
    try:
        context["ti"].xcom_push(FAILURE, str(error) or type(error).__name__)
    except Exception as found:
        # The task's own error is what people must see.
        log.warning("why the task failed was not left for others: %s", found)
