from __future__ import annotations

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction

from airflow_dredge.operators.failures import RETRY_BY_FAMILY
from dredge import errors

EXPECTED = {
    errors.ConfigError: RetryAction.FAIL,
    errors.RefusedError: RetryAction.FAIL,
    errors.LeaseHeldError: RetryAction.FAIL,
    errors.OvertakenError: RetryAction.FAIL,
    errors.AwaitingApprovalError: RetryAction.FAIL,
    errors.RejectedError: RetryAction.FAIL,
    errors.WitnessError: RetryAction.FAIL,
    errors.BlockedError: RetryAction.FAIL,
    errors.AlarmError: RetryAction.FAIL,
    errors.FormatError: RetryAction.FAIL,
    errors.NotFoundError: RetryAction.FAIL,
    errors.PartialError: RetryAction.FAIL,
    errors.UnavailableError: RetryAction.RETRY,
    errors.ConflictError: RetryAction.RETRY,
    errors.DefectError: RetryAction.RETRY,
}


@pytest.mark.parametrize(
    ("family", "action"), EXPECTED.items(), ids=lambda item: getattr(item, "__name__", "")
)
def test_family_decides(family: type[errors.DredgeError], action: RetryAction) -> None:
    decision = RETRY_BY_FAMILY.evaluate(family("x"), 1, 3)
    assert decision.action is action
    assert family.is_retried == (action is RetryAction.RETRY)
    assert (decision.retry_delay is not None) == (action is RetryAction.RETRY)


def test_no_family_is_forgotten() -> None:
    families = {
        value
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, errors.DredgeError)
        and value is not errors.DredgeError
    }
    assert families == set(EXPECTED)


def test_anything_else_follows_the_task() -> None:
    assert RETRY_BY_FAMILY.evaluate(RuntimeError("bug"), 1, 3).action is RetryAction.DEFAULT
