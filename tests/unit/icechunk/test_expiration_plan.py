"""What a plan of an expiration says of each ref, and what it binds an approval to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.expiration.config import ExpireConfig
from dredge.icechunk.expiration.plan import Edit, ExpirationPlan, RefChange, default_rule, plan_expiration
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.history import Ref
from tests.support.icechunk import Graph, history_of, micros_of

NODES = (("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0), ("4", "3", 4.0))


def planned(
    time: float, rule: str, branches: dict[str, str], tags: dict[str, str] | None = None, **flags: bool
) -> ExpirationPlan:
    history = history_of(Graph(NODES, branches, tags or {}), 2 if rule == "spec_v2" else 1)
    return plan_expiration(history, instant(micros_of(time)), rule=rule, **flags)


def said_of(plan: ExpirationPlan, label: str) -> tuple[str, str, int, int]:
    (found,) = (change for change in plan.refs if change.ref.label == label)
    return found.action, found.reason, found.snapshots_before, found.snapshots_after


@pytest.mark.parametrize(
    ("time", "rule", "action", "why", "lengths"),
    [
        (0.5, "spec_v1", "unchanged", "nothing but the root is expired", (5, 5)),
        (0.5, "document", "unchanged", "nothing but the root is expired", (5, 5)),
        (3.5, "spec_v1", "shortened", "3 expired snapshots leave its history", (5, 2)),
        (3.5, "document", "shortened", "3 expired snapshots leave its history", (5, 2)),
        (9.0, "spec_v1", "re-parented", "stays; 3 older snapshots leave its history", (5, 2)),
        (9.0, "document", "held", "the rule keeps such a ref with its whole history", (5, 5)),
    ],
)
def test_a_plan_says_what_happens_to_main_and_why(
    time: float, rule: str, action: str, why: str, lengths: tuple[int, int]
) -> None:
    found = said_of(planned(time, rule, {"main": "4"}), "branch:main")
    assert (found[0], found[2:]) == (action, lengths)
    assert why in found[1]


@pytest.mark.parametrize(
    ("tip", "action", "why"),
    [("0", "held", "a root, which is never released"), ("1", "held", "the options keep expired refs")],
)
def test_an_expired_ref_beside_the_root_stays(tip: str, action: str, why: str) -> None:
    found = said_of(planned(3.5, "spec_v1", {"main": "4"}, {"old": tip}), "tag:old")
    assert found[0] == action
    assert why in found[1]


REF = Ref("tag", "t", "1")


@pytest.mark.parametrize(
    "change",
    [
        {"released": ("1",)},
        {"edits": (Edit("2", "1", "0"),)},
        {"refs": (RefChange(REF, "deleted", "", 1, 0),)},
    ],
)
def test_a_plan_that_changes_any_one_thing_is_not_empty(change: dict[str, object]) -> None:
    empty = planned(-1, "spec_v2", {"main": "4"}, {"t": "1"})
    assert empty.is_empty
    other = replace(empty, **change)  # type: ignore[arg-type]
    assert not other.is_empty
    assert other.digest != empty.digest


def test_each_spec_has_the_rule_that_the_library_applies_to_it() -> None:
    for spec, rule in ((1, "spec_v1"), (2, "spec_v2")):
        history = history_of(Graph(NODES, {"main": "4"}), spec)
        assert default_rule(history) == rule
        assert plan_expiration(history, instant(micros_of(3.5))).rule == rule
    assert planned(3.5, "document", {"main": "4"}).rule == "document"


class Nowhere(tzinfo):
    def utcoffset(self, _at: datetime | None) -> timedelta | None:
        return None

    def dst(self, _at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _at: datetime | None) -> str | None:
        return None


@pytest.mark.parametrize("zone", [None, Nowhere()])
def test_a_threshold_without_an_offset_means_no_instant(zone: tzinfo | None) -> None:
    history = history_of(Graph(NODES, {"main": "4"}), 2)
    with pytest.raises(ConfigError, match="time zone"):
        plan_expiration(history, datetime(2026, 1, 1, tzinfo=zone))


def test_unless_somebody_says_so_no_ref_is_deleted() -> None:
    plain = ExpireConfig.from_params({})
    assert (plain.delete_expired_branches, plain.delete_expired_tags) == (False, False)
    assert (plain.rule, plain.older_than, plain.estimate) == (None, "30d", True)
    with pytest.raises(ConfigError, match="rule"):
        ExpireConfig(rule="spec_v9")


def test_a_ref_on_the_root_is_not_deleted_by_the_documents_rule() -> None:
    plan = planned(3.5, "document", {"main": "4"}, {"old": "0", "gone": "1"}, delete_expired_tags=True)
    assert [ref.label for ref in plan.refs_deleted] == ["tag:gone"]
    assert "tag:old" in plan.ancestries()
