"""The ledger: what counts of several attempts at the same object."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.storage import NOT_SENT, DeleteOutcome, open_writer
from tests.support.memory_store import forget_memory_store

BEST_FIRST = ["deleted", "missing", "kept", "not_addressable", "failed"]


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://ledger-test/r1"), "r1")
    forget_memory_store("ledger-test")


def candidates(*addresses: str) -> pa.Table:
    count = len(addresses)
    columns = {"size": [7] * count, "reason": ["x"] * count}
    return pa.table({"address": pa.array(addresses, pa.string()), **columns})


def row(address: str, outcome: str, attempt: int, **columns: list[str | None]) -> pa.Table:
    return ledger.rows_of(candidates(address), [outcome], attempt, 1, **columns)


def of(rows: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(item.values()) for item in rows.select(columns).to_pylist()]


def test_only_what_failed_is_tried_again() -> None:
    rows = pa.concat_tables([row(outcome, outcome, 1) for outcome in BEST_FIRST])
    assert ledger.finished(rows).to_pylist() == BEST_FIRST[:-1]
    assert list(ledger.OUTCOMES) == BEST_FIRST, "reports count each of them"


def test_what_was_not_sent_is_not_in_the_ledger_and_the_rest_is_word_for_word(folder: RunFolder) -> None:
    outcomes = [
        DeleteOutcome("a", "deleted", version_id="v1"),
        DeleteOutcome("b", "failed", NOT_SENT),
        DeleteOutcome("c", "failed", "SlowDown", "later"),
    ]
    rows = ledger.outcome_rows(candidates("a", "b", "c"), outcomes, 3, 5)
    expected = [
        ("a", "deleted", None, None, "v1", 3, 5),
        ("c", "failed", "SlowDown", "later", None, 3, 5),
    ]
    columns = ("address", "outcome", "code", "message", "version_id", "attempt", "fencing")
    assert of(rows, *columns) == expected
    for turn in (0, 1):  # the same attempt, part and request of another round overwrites nothing
        ledger.write_raw(folder, "part-1", 3, turn, 1, rows)
        ledger.write_raw(folder, "part-1", 3, turn, 1, rows)
    ledger.write_raw(folder, "part-10", 3, 0, 1, rows)
    assert of(ledger.read_raw(folder, "part-1"), *columns) == expected * 4
    assert ledger.read_raw(folder, "part-2").num_rows == 0
