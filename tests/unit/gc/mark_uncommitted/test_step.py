"""What the step writes down of what it read, for later steps and for people."""

from __future__ import annotations

import pytest

from dredge.gc.steps import mark_uncommitted, slice_listing
from lakefs_embedded.catalog import uncommitted as catalog_uncommitted
from tests.support.gc import summary_of
from tests.support.lossy_scans import cut_after, stormy_world


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
