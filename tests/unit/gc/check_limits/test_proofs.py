"""Each proof is demanded: without it the run is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.gc.check_limits import guards
from dredge.gc.check_limits.guards import Check
from dredge.runs.limits import Finding
from tests.support.checks import check_of, marked


@pytest.mark.parametrize(
    ("proof", "step", "counts"),
    [
        (guards.listing_complete, "slice_listing", {"old_objects": 1}),
        (guards.listing_complete, "subtract", {"listed_objects": 1}),
        (guards.staging_complete, "mark_uncommitted", {"rows": 1_000}),
        (guards.staging_complete, "mark_uncommitted", {"branches": 0}),
        (guards.live_not_empty, "list_committed", {"live_addresses": 0}),
        (guards.committed_not_empty, "list_committed", {"ranges": 0, "metaranges": 2}),
    ],
)
def test_figures_that_do_not_add_up_refuse_the_run(
    proof: Callable[[Check], Finding], step: str, counts: dict[str, int]
) -> None:
    _, run = marked()
    finding = proof(check_of(run, **{step: counts}))
    assert (finding.rule, finding.verdict) == (proof.__name__, "refused")


def test_nothing_live_is_right_only_where_nothing_of_the_repository_is_committed_or_staged() -> None:
    _, run = marked()

    def verdict(live: int, rows: int, outside: int, staged: int) -> str:
        committed = {"live_addresses": live, "range_rows": rows, "outside_rows": outside}
        check = check_of(run, list_committed=committed, mark_uncommitted={"rows": staged})
        return guards.live_not_empty(check).verdict

    assert {(1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0), (0, 2, 2, 0)} == {
        counts
        for counts in ((1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0), (0, 2, 2, 0), (0, 1, 0, 0), (0, 0, 0, 1))
        if verdict(*counts) == "passed"
    }


def test_a_deletion_of_the_last_object_is_no_reason_to_stop() -> None:
    _, run = marked()
    counts = {"ranges": 0, "metaranges": 1}
    assert guards.committed_not_empty(check_of(run, list_committed=counts)).verdict == "passed"


@pytest.mark.parametrize("step", ["slice_listing", "mark_uncommitted", "list_committed"])
def test_a_result_that_changed_after_it_was_read_refuses_the_run(step: str) -> None:
    _, run = marked()
    right = guards.order(check_of(run))
    finding = guards.order(check_of(run, **{step: {"other": 1}}))
    assert (finding.verdict, finding.figure) == ("refused", "not all")
    assert right.figure != finding.figure
    assert step in finding.text


def test_a_plan_that_changed_refuses_the_run() -> None:
    _, run = marked()
    plan = run.folder.read_json("plan.json")
    run.folder.write_json("plan.json", {**plan, "cutoff": "2030-01-01T00:00:00+00:00"})
    assert guards.order(check_of(run)).verdict == "refused"
