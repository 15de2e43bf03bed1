"""The sweep believes nothing but what it reads itself: places, verdicts, heads."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import ConfigError, DredgeError, FormatError, PartialError, RefusedError, UnavailableError
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.bulk_delete.sweep import SweepConfig, settle, sweep_parts
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.gc.subtract.candidates import CANDIDATES
from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.gate import GateConfig, write_look
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.tasks import LocalRunner, Stores
from dredge.runs.tries import StepTry
from dredge.storage import store_clock
from tests.support.gc import World, busy_world, summary_of

WATCH = "bulk_delete/_watch/test.json"


def candidates(run: Run, *addresses: str, hold: str | None = None, etag: str | None = None) -> PartInfo:
    names, count = pa.array(addresses, pa.string()), len(addresses)
    columns = {
        "address": names,
        "size": pa.array([6] * count, pa.int64()),
        "last_modified": pa.array([run.plan.created_at] * count, pa.timestamp("us", tz="UTC")),
        "etag": pa.array([etag] * count, pa.string()),
        "hash": pa.array(hash64(names)),
        "storage_class": pa.nulls(count, pa.string()),
        "reason": pa.array(["unreferenced"] * count),
        "hold": pa.array([hold] * count, pa.string()),
    }
    table = pa.Table.from_arrays([columns[name] for name in CANDIDATES.names], schema=CANDIDATES)
    return run.folder.write_table("subtract", 99, table)


def sweep(run: Run, part: PartInfo, **more: Any) -> bool:
    """Sweep one part as a worker does whose gate is open; gives whether the gate stayed open."""
    attempt = StepTry.claim(run.folder.writer, "bulk_delete")
    write_look(run.folder, WATCH, True, "", store_clock(run.state, ""))
    config = SweepConfig(
        gate=GateConfig(lease=run.plan.lease, watch=WATCH, trusted_seconds=0, silence_seconds_max=60),
        turn=0,
        alive=[],
        holds=CheckLimitsOutput.of(summary_of(run, "check_limits")).hold_files,
        **{"delete_keys": 10, **more},
    )
    stores = Stores(
        run_uri=run.folder.uri,
        run_id=run.plan.run_id,
        attempt=attempt.named,
        store_uri=run.plan.namespace,
        state_uri=run.state.uri,
        progress="bulk_delete/_progress",
    )
    (stopped,) = sweep_parts.spread(LocalRunner(), "bulk_delete", stores, config, [[part]])
    return not stopped


def test_sweep_deletes_what_nothing_holds_and_keeps_what_any_code_holds() -> None:
    world, _, gone = busy_world()
    run = world.marked()
    free, held = sorted(gone)[:2]
    assert sweep(run, candidates(run, held, hold="a code that nobody knows"))
    assert sweep(run, candidates(run, free))
    assert held in world.data()
    assert free not in world.data()


def test_sweep_deletes_nothing_outside_data() -> None:
    world, kept, gone = busy_world()
    run = world.marked()
    outside = world.orphan("elsewhere/x")
    with pytest.raises(FormatError, match="outside data/"):
        sweep(run, candidates(run, min(gone), outside))
    assert world.data() == kept | gone
    assert outside in world.lake.keys("elsewhere/")


@pytest.mark.parametrize("approval", ["never", "over_limits"])
@pytest.mark.parametrize("verdict", ["awaiting_approval", "refused", "something new"])
def test_sweep_deletes_nothing_when_the_guards_did_not_pass(verdict: str, approval: str) -> None:
    world, kept, gone = busy_world()
    run = world.marked(approval=approval)
    summary = summary_of(run, "check_limits")
    # A summary that looks complete, as the one of a dry run does whose limits would stop a run.
    run.folder.write_summary(replace(summary, details={**summary.details, "verdict": verdict}))
    asks = (verdict, approval) == ("awaiting_approval", "over_limits")
    with pytest.raises(
        RefusedError, match="needs the result of approve" if asks else "the guards did not pass"
    ):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


# What is said of a sweep follows from its ledger, and a ledger that does not fit the candidates is none.


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
        return settle(self.run, self.world.runner, self.record, complete)

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
