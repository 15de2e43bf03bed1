"""What became of objects is summed up, and what is left to do is an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.errors import UnavailableError
from dredge.undo.side_run import Tally, note_outcomes

OUTCOMES = {"restored": "came back", "failed": "failed", "not_sent": "were not sent", "gone": "are gone"}
TEXT = "{left} objects are left{example}."


def noted(*outcomes: str) -> Any:
    record, tally = SimpleNamespace(counts={}, status="success", error=None), Tally()
    for number, outcome in enumerate(outcomes):
        tally.count(outcome, 1, f"data/{number}", "words")
    note_outcomes(cast("Any", record), tally, OUTCOMES, ("failed", "not_sent"), TEXT)
    return record


def test_every_outcome_is_a_figure_and_what_is_left_is_an_error() -> None:
    record = noted("restored", "gone", "gone")
    assert record.counts == {
        "restored_objects": 1,
        "failed_objects": 0,
        "not_sent_objects": 0,
        "gone_objects": 2,
    }
    assert (record.status, record.error) == ("success", None)


@pytest.mark.parametrize("outcomes", [("failed", "not_sent", "restored"), ("not_sent",)])
def test_what_is_left_is_an_error(outcomes: tuple[str, ...]) -> None:
    record = noted(*outcomes)
    assert record.status == "partial"
    assert isinstance(record.error, UnavailableError)
