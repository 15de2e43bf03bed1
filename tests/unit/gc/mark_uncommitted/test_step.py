"""What the step writes down of what it read, for later steps and for people."""

from __future__ import annotations

import pytest

from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.steps import mark_uncommitted, slice_listing
from lakefs_embedded.catalog import uncommitted as catalog_uncommitted
from tests.support.gc import make_world, summary_of
from tests.support.lossy_scans import cut_after, stormy_world
from tests.support.tries import undo


@pytest.mark.parametrize("rows", [3, 1000])
def test_people_are_told_where_a_scan_lost_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    world, living, _ = stormy_world()
    cut_after(monkeypatch, rows, catalog_uncommitted)
    run = world.plan()
    slice_listing(run, world.runner)
    mark_uncommitted(run, world.runner)
    summary = summary_of(run, "mark_uncommitted")
    lost = [text for text in summary.warnings if "on aa" in text]
    assert len(lost) == (rows < len(living))
    assert summary.counts["branches_asked_for_all"] == len(lost)


def test_what_was_staged_when_the_step_was_done_before_is_remembered_each_time() -> None:
    world = make_world()
    world.upload("a", b"1")
    run = world.plan()
    seen: list[int] = []
    for content in (b"2", b"3", None):
        slice_listing(run, world.runner)
        mark_uncommitted(run, world.runner)
        staged = MarkUncommittedOutput.of(summary_of(run, "mark_uncommitted"))
        seen.append(len(staged.hashes_of_earlier_tries))
        if content is not None:
            world.upload("a", content)
            undo(run, "slice_listing")
    assert seen == [0, 1, 2]
