"""Each round of deleting begins with a look at everything that it stands on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import RefusedError
from dredge.gc.bulk_delete.step import bulk_delete
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
