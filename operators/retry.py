"""What Airflow does about an error, by the families of `dredge.errors`."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import ExceptionRetryPolicy, RetryRule
from airflow.sdk.definitions.retry_policy import RetryAction

from dredge import errors


def _action(family: type[errors.DredgeError]) -> RetryAction:
    return RetryAction.RETRY if family.is_retried else RetryAction.FAIL


#: Safety stops, wrong input and bytes that cannot be trusted fail at once: a retry would say the same. A
#: store or server that is busy or down gets time, and so does what nobody foresaw. All else follows the task's
#: own `retries`.
RETRY_BY_FAMILY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=["dredge.errors.RefusedError"],
            action=_action(errors.RefusedError),
            reason="a safety check said no; a retry would say the same",
        ),
        RetryRule(
            exception=["dredge.errors.ConfigError", "dredge.errors.NotFoundError"],
            action=_action(errors.ConfigError),
            reason="the input is wrong; correct it and clear the task",
        ),
        RetryRule(
            exception=["dredge.errors.FormatError"],
            action=_action(errors.FormatError),
            reason="bytes that cannot be trusted; nothing more was deleted",
        ),
        RetryRule(
            exception=["dredge.errors.PartialError"],
            action=_action(errors.PartialError),
            reason="a part is done, the rest needs what the message says; then clear the task: it does the rest",
        ),
        RetryRule(
            exception=["dredge.errors.UnavailableError", "dredge.errors.ConflictError"],
            action=_action(errors.UnavailableError),
            retry_delay=timedelta(minutes=2),
            reason="a service is busy or down; the step goes on where it stopped",
        ),
        # It may be a hiccup of some library that we do not translate yet: to try again is safe, and often helps.
        RetryRule(
            exception=["dredge.errors.DefectError"],
            action=_action(errors.DefectError),
            retry_delay=timedelta(minutes=1),
            reason="a defect of Dredge, please report it; the step may be run again",
        ),
    ]
)
