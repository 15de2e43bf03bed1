"""Guards are functions in one list; one that says no stops the run, and the report has all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.errors import AwaitingApprovalError, RefusedError
from dredge.gc.check_limits.guards import Check, must
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
