"""Why a task failed: as an error of `dredge.errors` whatever it was, and where later tasks of the run find it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowSensorTimeout

from airflow_dredge.operators.retry import fail_for_good
from dredge.errors import DredgeError
from dredge.runs.failures import defect

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

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
