"""Whether a person has to be asked follows from the plan and from what the guards found."""

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.approve.records import why_asked
from dredge.approve.settings import ALWAYS, NEVER

OVER = [
    {"rule": "objects", "verdict": "awaiting_approval", "text": "3 objects"},
    {"rule": "order", "verdict": "passed", "text": "all"},
]


def asked(wanted: str, *, over: bool = False, dry_run: bool = False, objects: int = 1) -> str:
    plan: Any = SimpleNamespace(dry_run=dry_run, config=SimpleNamespace(approval=wanted))
    verdict = "awaiting_approval" if over else "passed"
    guards: Any = SimpleNamespace(verdict=verdict, findings=OVER, counts={"deletable_objects": objects})
    return why_asked(plan, guards)


def test_a_person_is_asked_where_a_limit_or_the_plan_wants_it() -> None:
    over = asked("over_limits", over=True)
    assert "3 objects" in over
    assert asked(ALWAYS, over=True) == over
    assert asked(ALWAYS) not in ("", over)
    assert asked("over_limits") == ""


@pytest.mark.parametrize("over", [True, False])
def test_nobody_is_asked_about_a_run_that_deletes_nothing_or_may_ask_nobody(over: bool) -> None:
    assert asked(ALWAYS, over=over, dry_run=True) == ""
    assert asked(ALWAYS, over=over, objects=0) == ""
    assert asked(NEVER, over=over) == ""
