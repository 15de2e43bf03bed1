"""When a hook runs."""

from __future__ import annotations

import pytest

from dredge.graveler.actions.conditions import holds
from dredge.graveler.actions.errors import HookError


@pytest.mark.parametrize(
    ("condition", "after_success", "after_failure"),
    [
        ("", True, False),
        ("success()", True, False),
        ("failure()", False, True),
        ("true", True, True),
        ("false", False, False),
        ("success() || failure()", True, True),
        ("success() or failure()", True, True),
        ("success() && failure()", False, False),
        ("!success() and true", False, True),
        ("not (success() && true)", False, True),
        ("failure ( ) == true", False, True),
        ("success() != false || false", True, False),
        ("false && false || true", True, True),
        ("false && (false || true)", False, False),
    ],
)
def test_conditions(condition: str, after_success: bool, after_failure: bool) -> None:
    assert holds(condition, failed=False) is after_success
    assert holds(condition, failed=True) is after_failure


@pytest.mark.parametrize(
    "condition",
    ["success", "success() success()", "(true", "1 + 1", "True", "always()", "&&", "true &&", "()"],
)
def test_what_is_not_understood_is_an_error_and_neither_runs_nor_passes(condition: str) -> None:
    with pytest.raises(HookError, match="not understood") as refused:
        holds(condition, failed=False)
    assert not refused.value.failed
