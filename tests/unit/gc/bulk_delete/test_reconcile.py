"""What is said of a sweep follows from its ledger, and a ledger that does not fit the candidates is none."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, DredgeError, FormatError, PartialError, UnavailableError
from dredge.gc.bulk_delete.outcomes import settle
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs import ledger
from dredge.runs.steps import StepRecord
from dredge.runs.tries import StepTry
from tests.support.gc import World, busy_world, summary_of

type Fate = tuple[str, str | None]


class Sweep:
    """A run whose candidates were gone through, with a ledger as given."""

    def __init__(self, fate_of: Callable[[int], Fate | None] = lambda _: (ledger.DELETED, None)) -> None:
        self.world: World = busy_world()[0]
        self.run: Run = self.world.plan()
        self.world.mark(self.run)
        subtracted = summary_of(self.run, SubtractOutput.STEP)
        self.record = StepRecord(
            {SubtractOutput.STEP: subtracted}, StepTry(self.run.folder.writer, ledger.STEP, 1)
        )
        self.parts = SubtractOutput.of(subtracted).candidates
        self.rows = [self.run.folder.read_part(part) for part in self.parts]
        self.sizes: list[int] = []
        number = 0
        for part, rows in zip(self.parts, self.rows, strict=True):
            fates = [fate_of(number + row) for row in range(rows.num_rows)]
            number += rows.num_rows
            self.write(
                ledger.part_stem(part), rows.filter(pa.array([fate is not None for fate in fates])), fates
            )
            self.sizes += rows["size"].to_pylist()

    def write(self, stem: str, rows: pa.Table, fates: list[Fate | None]) -> None:
        known = [fate for fate in fates if fate is not None]
        outcomes, codes = [fate[0] for fate in known], [fate[1] for fate in known]
        messages = [None if code is None else f"about {code}" for code in codes]
        written = ledger.rows_of(rows, outcomes, 1, 1, code=codes, message=messages)
        ledger.write_raw(self.run.folder, stem, 1, 0, 1, written)

    def settle(self, complete: bool = True) -> DredgeError | None:
        return settle(self.run, self.world.runner, self.record, self.parts, complete)

    @property
    def count(self) -> int:
        return len(self.sizes)


def test_a_sweep_that_went_through_and_does_not_know_what_became_of_an_object_is_an_error() -> None:
    sweep = Sweep(lambda number: None if number == 3 else (ledger.DELETED, None))
    with pytest.raises(FormatError, match="7 objects for 8 candidates"):
        sweep.settle()
    stopped = Sweep(lambda number: None if number == 3 else (ledger.DELETED, None))
    assert stopped.settle(complete=False) is None
    assert stopped.record.counts["undone_objects"] == 1
    before_its_first_request = Sweep(lambda _: None)
    assert before_its_first_request.settle(complete=False) is None
    assert before_its_first_request.record.counts["undone_objects"] == 8


def test_a_ledger_of_objects_that_were_no_candidates_is_none() -> None:
    sweep = Sweep()
    rows = sweep.rows[0].slice(0, 1).set_column(0, "address", pa.array(["data/live"]))
    assert "address" in rows.column_names
    sweep.write(ledger.part_stem(sweep.parts[0]), rows, [(ledger.DELETED, None)])
    with pytest.raises(FormatError, match="no candidates"):
        sweep.settle(complete=False)


@pytest.mark.parametrize(
    ("code", "deleted", "family"),
    [
        ("SlowDown", True, UnavailableError),
        ("AccessDenied", True, PartialError),
        ("AccessDenied", False, ConfigError),
    ],
)
def test_what_could_not_be_deleted_ends_the_sweep_and_is_named(
    code: str, deleted: bool, family: type[DredgeError]
) -> None:
    other = (ledger.DELETED if deleted else ledger.KEPT, None)
    sweep = Sweep(lambda number: (ledger.FAILED, code) if number < 2 else other)
    error = sweep.settle()
    assert type(error) is family
    assert f"2 objects could not be deleted ({code}), such as" in str(error)
    failures = sweep.record.details["failures"]
    assert [failure["message"] for failure in failures] == [f"about {code}"] * 2
