"""Each round of deleting begins with a look at everything that it stands on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import OvertakenError, RefusedError
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.runs.tries import StepTry
from tests.support.gc import busy_world, deleting, summary_of


@pytest.mark.parametrize("step", ["list_committed", "check_limits"])
def test_a_round_of_deleting_begins_with_an_unbroken_chain(step: str) -> None:
    """A result that is made anew while the re-check reads is not the one that these candidates stand on."""
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)

    def do_again() -> None:
        summary = summary_of(run, step)
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))

    with (
        world.during("prepare_uncommitted", do_again),
        deleting() as requests,
        pytest.raises(RefusedError, match="do not belong together"),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_sweep_that_was_overtaken_while_it_checked_again_opens_no_gate() -> None:
    """Its workers would find the gate closed to them; it does not come to that."""
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)

    def try_again() -> None:
        StepTry.claim(run.folder.writer, "bulk_delete")

    with (
        world.during("prepare_uncommitted", try_again),
        deleting() as requests,
        pytest.raises(OvertakenError),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert sum(batch.num_rows for batch in run.folder.writer.list("bulk_delete/_watch/")) == 0
    assert world.data() == kept | gone
