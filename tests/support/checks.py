"""Inputs of a guard: a real run right before its deletion, with some figures changed."""

from concurrent.futures import Future

from msgspec.structs import replace

from dredge.gc.check_limits import CheckLimitsOutput, HoldFiles, canaries
from dredge.gc.check_limits.guards import Check
from dredge.gc.check_limits.holds import Tally
from dredge.gc.check_limits.identical import Proof
from dredge.gc.pending.advance import Advanced
from dredge.gc.pending.known import Known
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing, subtract
from dredge.runs.run import StepRecord
from dredge.runs.tries import StepTry
from dredge.sets.hashes import NONE, write_hashes
from tests.support.gc import World, busy_world, summary_of


def marked() -> tuple[World, Run]:
    world, _, _ = busy_world()
    run = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(run, world.runner)
    return world, run


def check_of(run: Run, **counts: dict[str, int]) -> Check:
    """The inputs of a guard for a run, with other figures of some steps."""
    inputs = {}
    for output in CheckLimitsOutput.INPUTS:
        summary = summary_of(run, output.STEP)
        inputs[output.STEP] = replace(summary, counts={**summary.counts, **counts.get(output.STEP, {})})
    record = StepRecord(inputs, StepTry(run.folder.writer, CheckLimitsOutput.STEP, 1))
    verdicts = Proof(0).verdicts.write(run.folder)
    cleared = write_hashes(run.folder, "check/cleared.u64", NONE)
    holds = HoldFiles(size_verdicts=verdicts[0], served=verdicts[1], cleared=cleared)
    sample: Future[list[canaries.Canary]] = Future()
    sample.set_result(canaries.sample(run, CheckLimitsOutput.STEP))
    return Check(run, record, Proof(0), Tally(), [], holds, Known(), Advanced(), sample)
