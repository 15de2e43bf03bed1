"""The sweep believes nothing but what it reads itself: places, verdicts, heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.bulk_delete.sweep import SweepConfig, SweepTask, sweep_parts
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract.classify import CANDIDATES
from dredge.hashing import hash64
from dredge.runs.gate import GateConfig, write_look
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner, Stores
from dredge.runs.tries import StepTry
from dredge.storage import store_clock
from tests.support.gc import busy_world, summary_of

WATCH = "bulk_delete/_watch/test.json"


def candidates(run: Run, *addresses: str, hold: str | None = None, etag: str | None = None) -> PartInfo:
    """A part of candidates as subtract might write it."""
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
    (result,) = sweep_parts.spread(
        LocalRunner(), "bulk_delete", stores, config, [SweepTask(candidates=[part])]
    )
    return not result.stopped


def test_sweep_deletes_what_nothing_holds_and_keeps_what_any_code_holds() -> None:
    world, _, gone = busy_world()
    run = world.plan()
    world.mark(run)
    free, held = sorted(gone)[:2]
    assert sweep(run, candidates(run, held, hold="a code that nobody knows"))
    assert sweep(run, candidates(run, free))
    assert held in world.data()
    assert free not in world.data()


def test_sweep_deletes_nothing_outside_data() -> None:
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)
    outside = world.orphan("elsewhere/x")
    with pytest.raises(FormatError, match="outside data/"):
        sweep(run, candidates(run, min(gone), outside))
    assert world.data() == kept | gone
    assert outside in world.lake.keys("elsewhere/")


@pytest.mark.parametrize("approval", ["never", "over_limits"])
@pytest.mark.parametrize("verdict", ["awaiting_approval", "refused", "something new"])
def test_sweep_deletes_nothing_when_the_guards_did_not_pass(verdict: str, approval: str) -> None:
    world, kept, gone = busy_world()
    run = world.plan(approval=approval)
    world.mark(run)
    summary = summary_of(run, "check_limits")
    # A summary that looks complete, as the one of a dry run does whose limits would stop a run.
    run.folder.write_summary(replace(summary, details={**summary.details, "verdict": verdict}))
    asks = (verdict, approval) == ("awaiting_approval", "over_limits")
    with pytest.raises(
        RefusedError, match="needs the result of approve" if asks else "the guards did not pass"
    ):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone
