"""Every listed row is compared, or the run ends."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing
from dredge.gc.subtract.step import _chunks, subtract
from tests.support.gc import Parallel, busy_world, make_world, summary_of
from tests.support.kv_views import store_of


class Forgetful(Parallel):
    """Leaves out the last task of each step's first round."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.left_out = 0

    def run(self, name: str, fn: Any, config: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Any:
        if name == self.step and not self.left_out:
            self.left_out, tasks = 1, tasks[:-1]
        return super().run(name, fn, config, tasks)


def test_rows_that_no_task_compared_stop_the_run() -> None:
    world, kept, gone = busy_world()
    world.runner = runner = Forgetful("subtract")
    with pytest.raises(FormatError, match="rows were compared"):
        world.collect(tuning={"part_rows": 2})
    assert runner.left_out
    assert world.data() == kept | gone


def test_where_everything_is_live_nothing_is_a_candidate() -> None:
    run: Any = SimpleNamespace(progress=SimpleNamespace(add=lambda _rows: None))
    parts: Any = [SimpleNamespace(rows=2)]
    assert list(_chunks(run, parts, [np.array([True, True])], 5)) == []


@pytest.mark.parametrize("exact", [False, True])
def test_what_may_be_staged_unseen_is_held_unless_every_staging_record_was_read(
    monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    """An object as long as one of a head, and another."""
    world = make_world()
    world.commit("a", b"same")
    world.orphan("data/slice/orphan", b"else")
    world.upload("b", b"another length")
    world.age(days=2)
    world.collect(dry_run=True)
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(hours=1)
    store_of(world, monkeypatch)
    run = world.plan(read_kv=exact)
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(run, world.runner)
    counts = summary_of(run, "subtract").counts
    assert counts.get("same_size_objects", 0) == (0 if exact else 1)
    assert counts["held_objects"] == (0 if exact else 1)
    assert counts["candidates_objects"] == 2
