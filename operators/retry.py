"""What Airflow does about an error, by the families of `dredge.errors`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_dredge.operators.airflow_versions import HAS_RETRY_POLICY
from dredge.errors import DredgeError


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

    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                exception=["dredge.errors.RefusedError"],
                action=RetryAction.FAIL,
                reason="a safety check said no; a retry would say the same",
            ),
            RetryRule(
                exception=["dredge.errors.ConfigError", "dredge.errors.NotFoundError"],
                action=RetryAction.FAIL,
                reason="the input is wrong; correct it and clear the task",
            ),
            RetryRule(
                exception=["dredge.errors.FormatError"],
                action=RetryAction.FAIL,
                reason="bytes that cannot be trusted; nothing more was deleted",
            ),
            RetryRule(
                exception=["dredge.errors.PartialError"],
                action=RetryAction.FAIL,
                reason="a part is done, the rest needs what the message says; then clear the task: it does the rest",
            ),
            RetryRule(
                exception=["dredge.errors.UnavailableError", "dredge.errors.ConflictError"],
                action=RetryAction.RETRY,
                retry_delay=timedelta(minutes=2),
                reason="a service is busy or down; the step goes on where it stopped",
            ),
            # It may be a hiccup of some library that we do not translate yet: to try again is safe, and often helps.
            RetryRule(
                exception=["dredge.errors.DefectError"],
                action=RetryAction.RETRY,
                retry_delay=timedelta(minutes=1),
                reason="a defect of Dredge, please report it; the step may be run again",
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
