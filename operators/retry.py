"""What Airflow does about an error, by the families of `dredge.errors`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

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
