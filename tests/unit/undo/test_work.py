"""What became of objects is summed up, and what is left to do is an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.errors import UnavailableError
from dredge.runs.summary import PartInfo
from dredge.undo.work import Done, Tally, note_outcomes

OUTCOMES = {"restored": "came back", "failed": "failed", "not_sent": "were not sent", "gone": "are gone"}
TEXT = "{left} objects are left{example}."


def test_what_tasks_did_is_added_up_and_the_first_example_of_each_outcome_is_kept() -> None:
    first, second = Tally(), Tally()
    first.count("restored", 5, "data/a", "")
    first.count("failed", 7, "data/b", "Slow")
    first.count("failed", 1, "data/c", "Denied")
    second.count("failed", 2, "data/d", "Slow")
    second.count("gone", 0, "data/e", "")
    parts = [PartInfo(name, 1, 1, "x") for name in ("one", "two")]
    first.parts.append(parts[0])
    second.parts.append(parts[1])
    assert first.done() == Done(
        parts=parts[:1],
        objects={"restored": 1, "failed": 2},
        size_bytes={"restored": 5, "failed": 8},
        examples={"restored": "'data/a' ()", "failed": "'data/b' (Slow)"},
    )
    total = Tally()
    for tally in (first, second):
        total.add(tally.done())
    assert total.parts == parts
    assert total.objects == {"restored": 1, "failed": 3, "gone": 1}
    assert total.size_bytes == {"restored": 5, "failed": 10, "gone": 0}
    assert total.examples == {**first.examples, "gone": "'data/e' ()"}


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
