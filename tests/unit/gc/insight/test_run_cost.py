"""What a run will cost: expected by the last runs of its kind, and held against what it did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dredge.gc.insight.run_cost import FORECAST, compare_rows, expected, expected_lines, work_of
from dredge.runs.summary import StepSummary
from tests.support.gc import make_world

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def summary(step: str, seconds: float, **counts: int) -> StepSummary:
    return StepSummary(step, "run", "success", NOW, NOW + timedelta(seconds=seconds), counts)


def test_requests_follow_from_the_figures_of_the_steps() -> None:
    steps = [
        summary(
            "slice_listing", 1, old_objects=2500, young_objects=1, slices=9, young_slices=2, covered_slices=3
        ),
        summary("mark_uncommitted", 1, pages=4),
        summary("list_committed", 1, metaranges=10, ranges_decoded=7, range_rows=100, index_parts_read=1),
        summary("check_limits", 1, questions=5),
        summary("bulk_delete", 1, deleted_objects=1001),
    ]
    assert work_of(steps) == {
        "list_requests": 4 + 3,
        "metadata_reads": 17,
        "index_bytes": 800,
        "lakefs_requests": 9,
        "delete_requests": 2,
    }


def test_a_run_is_expected_to_cost_what_the_last_ones_of_its_kind_did_and_is_compared_with_that() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.age(days=2)
    root = f"{world.lake.namespace}/_lakefs/retention/gc/unified"
    first = world.plan(dry_run=True)
    world.run(first)
    assert FORECAST not in {info.key for info in first.folder.writer.list_level("").objects}
    assert expected(root, "lake", "clean", False) is None
    world.age(hours=1)
    second = world.plan(dry_run=True)
    forecast = second.folder.read_json(FORECAST)
    assert forecast["runs"] == [first.plan.run_id]
    world.run(second)
    (section,) = [
        item for item in second.folder.read_json("report.json")["sections"] if "Expected" in item["title"]
    ]
    assert [row for row in section["rows"] if row[0] == "Listing requests"] == [
        ["Listing requests", "2", "2"]
    ]
    assert "2 clean" in expected(root, "lake", "clean", True)["about"]  # type: ignore[index]


def test_what_a_run_did_not_come_to_is_told_as_not_done() -> None:
    found = {"about": "", "seconds": {"verify": 2.0, "slice_listing": 1.0}, "work": {"index_bytes": 2048}}
    rows = compare_rows(found, [summary("slice_listing", 3)])
    assert rows == [
        ["Seconds of slice_listing", "1.0", "3.0"],
        ["Seconds of verify", "2.0", "not done"],
        ["Bytes of the index read", "2.0 KiB", "0 B"],
    ]
    assert "3.0 s" in expected_lines(found)[1]
