"""Guards are functions in one list; one that says no stops the run, and the report has all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.errors import AwaitingApprovalError, RefusedError
from dredge.gc.check_limits import guards
from dredge.gc.check_limits.guards import Check, must
from dredge.gc.save_report.report import write_report
from dredge.runs.limits import Finding
from tests.support.gc import busy_world, summary_of

RULES = [
    "listing_complete",
    "staging_complete",
    "order",
    "live_not_empty",
    "committed_not_empty",
    "staging_not_gone",
    "nothing_nested",
    "namespaces_apart",
    "same_namespace",
    "lease_held",
    "no_other_collector",
    "canaries",
    "identical_content",
]
LIMITS = ["max_objects", "max_bytes", "max_percent"]


def says(rule: str, holds: bool) -> Callable[[Check], Finding]:
    """A guard that the package does not have."""
    return lambda _: must(rule, holds, 1, None, "was looked at")


def test_every_guard_is_asked_and_limits_follow() -> None:
    world, kept, _ = busy_world()
    context = world.plan()
    world.run(context)
    rules = [item["rule"] for item in context.folder.read_json("guard.json")["findings"]]
    assert rules == [*RULES, *LIMITS]
    assert {item["verdict"] for item in summary_of(context, "check_limits").details["findings"]} == {"passed"}
    assert world.data() == kept


@pytest.mark.parametrize(
    ("dry_run", "approval"), [(False, "over_limits"), (False, "never"), (True, "always")]
)
def test_a_new_guard_in_the_list_that_says_no_refuses_the_run(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool, approval: str
) -> None:
    """A limit that is exceeded as well does not make it a matter of approval."""
    monkeypatch.setattr(guards, "GUARDS", [*guards.GUARDS, says("new", False), says("another", True)])
    world, kept, gone = busy_world(max_delete_objects=0, approval=approval)
    context = world.plan(dry_run=dry_run)
    with pytest.raises(RefusedError) as caught:
        world.run(context)
    assert caught.type is RefusedError
    assert world.data() == kept | gone
    incomplete = context.folder.read_incomplete("check_limits")
    assert incomplete is not None
    assert incomplete.status == "refused"
    write_report(context)
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "refused"
    assert {item["rule"]: item["verdict"] for item in report["findings"]}["new"] == "refused"


def test_an_exceeded_limit_awaits_approval() -> None:
    world, kept, gone = busy_world(max_delete_objects=0)
    context = world.plan()
    with pytest.raises(AwaitingApprovalError):
        world.run(context)
    assert summary_of(context, "check_limits").details["verdict"] == "awaiting_approval"
    incomplete = context.folder.read_incomplete("approve")
    assert incomplete is not None
    assert incomplete.status == "awaiting_approval"
    assert world.data() == kept | gone


def test_an_exceeded_limit_refuses_a_run_that_may_ask_nobody() -> None:
    world, kept, gone = busy_world(max_delete_objects=0, approval="never")
    context = world.plan()
    with pytest.raises(RefusedError, match="max_objects"):
        world.run(context)
    incomplete = context.folder.read_incomplete("check_limits")
    assert incomplete is not None
    assert (incomplete.status, incomplete.details["verdict"]) == ("refused", "awaiting_approval")
    assert world.data() == kept | gone
