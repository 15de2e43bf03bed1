"""Expiration rules, plans and drawings."""

from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.icechunk.expiration import config, drawing
from dredge.icechunk.expiration.config import ExpireConfig
from dredge.icechunk.expiration.drawing import plan_page
from dredge.icechunk.expiration.plan import RULES, Edit, ExpirationPlan, RefChange, plan_expiration
from dredge.icechunk.format.metadata import SnapshotEntry, instant
from dredge.icechunk.history import History, Ref
from tests.support.icechunk import Graph, graph_of, history_of, micros_of, scenarios

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
        (0.5, "spec_v1", "unchanged", "only the root is expired", (5, 5)),
        (0.5, "document", "unchanged", "only the root is expired", (5, 5)),
        (3.5, "spec_v1", "shortened", "3 expired snapshots leave its history", (5, 2)),
        (3.5, "document", "shortened", "3 expired snapshots leave its history", (5, 2)),
        (9.0, "spec_v1", "re-parented", "kept; 3 older snapshots leave its history", (5, 2)),
        (9.0, "document", "held", "the rule keeps the whole history of such a ref", (5, 5)),
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
    [("0", "held", "a root, which is never released"), ("1", "held", "the settings keep expired refs")],
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


def test_every_rule_that_can_be_chosen_is_there() -> None:
    assert set(config.RULES) == set(RULES)


def test_each_spec_has_the_rule_that_the_library_applies_to_it() -> None:
    for spec, rule in ((1, "spec_v1"), (2, "spec_v2")):
        history = history_of(Graph(NODES, {"main": "4"}), spec)
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


SCENARIOS = scenarios()
LINEAR = Graph((("1", "0", 1), ("2", "1", 2), ("3", "2", 3), ("4", "3", 4)), {"main": "4"})


def at(time: float) -> datetime:
    return instant(micros_of(time))


def plans(scenario: dict[str, Any], rule: str, *, deletions: bool) -> list[ExpirationPlan]:
    history = history_of(graph_of(scenario), 2 if rule == "spec_v2" else 1)
    made = []
    for step in scenario["steps"]:
        plan = plan_expiration(
            history,
            at(step["threshold"]),
            rule=rule,
            delete_expired_branches=deletions and step["delete_expired_branches"],
            delete_expired_tags=deletions and step["delete_expired_tags"],
        )
        made.append(plan)
        history = plan.after
    return made


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["id"])
@pytest.mark.parametrize("rule", ["spec_v1", "spec_v2"])
def test_rule_gives_what_the_library_gave(scenario: dict[str, Any], rule: str) -> None:
    observed = scenario["observed"][rule.replace("_v", "")]["steps"]
    for plan, step in zip(plans(scenario, rule, deletions=True), observed, strict=True):
        assert set(plan.released) == set(step["released"])
        assert plan.ancestries() == step["ancestry_after"]
        deleted = {f"branch:{name}" for name in step["deleted_branches"]}
        deleted |= {f"tag:{name}" for name in step["deleted_tags"]}
        assert {ref.label for ref in plan.refs_deleted} == deleted
        edits = [{"id": edit.snapshot, "new_parent": edit.new_parent} for edit in plan.edits]
        assert sorted(edits, key=str) == sorted(step["edited"], key=str)
        if rule == "spec_v2":
            assert set(plan.after.snapshots) == set(step["repo_info_snapshots"])
            pruned = {
                entry.id: sorted(entry.pruned) for entry in plan.after.snapshots.values() if entry.pruned
            }
            assert pruned == {name: sorted(logs) for name, logs in step["pruned_ancestor_tx_logs"].items()}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["id"])
def test_document_rule_gives_what_its_pseudo_code_gives(scenario: dict[str, Any]) -> None:
    for plan, step in zip(
        plans(scenario, "document", deletions=False), scenario["seed_document_pseudocode"], strict=True
    ):
        edits = [{"id": edit.snapshot, "new_parent": edit.new_parent} for edit in plan.edits]
        assert sorted(edits, key=str) == sorted(step["edited"], key=str)
        assert plan.ancestries() == step["ancestry_after"]
        assert set(plan.released) == set(step["no_longer_reachable"])


def test_documents_sample_frees_two_and_five_more_when_the_tags_go() -> None:
    history = history_of(graph_of(SCENARIOS[0]), 1)
    kept = plan_expiration(history, at(7.5), rule="document")
    assert set(kept.released) == {"6", "7"}
    gone = plan_expiration(history, at(7.5), rule="document", delete_expired_tags=True)
    assert set(gone.released) == {"1", "2", "3", "4", "5", "6", "7"}
    assert [ref.label for ref in gone.refs_deleted] == ["tag:tag1", "tag:tag2"]


@pytest.mark.parametrize("rule", ["document", "spec_v1", "spec_v2"])
def test_threshold_before_the_root_changes_nothing(rule: str) -> None:
    # The founding algorithm made the root its own descendant here.
    plan = plan_expiration(history_of(LINEAR, 1), at(-1), rule=rule)
    assert plan.is_empty
    assert plan.refs[0].action == "unchanged"


@pytest.mark.parametrize("rule", ["document", "spec_v1", "spec_v2"])
def test_a_snapshot_of_the_very_threshold_is_not_older(rule: str) -> None:
    plan = plan_expiration(history_of(LINEAR, 1), at(3), rule=rule)
    assert set(plan.released) == {"1", "2"}
    assert plan.ancestries() == {"branch:main": ["4", "3", "0"]}
    (tip,) = plan_expiration(history_of(LINEAR, 1), at(4), rule=rule).refs
    assert (tip.action, tip.snapshots_before, tip.snapshots_after) == ("shortened", 5, 2)


@pytest.mark.parametrize("rule", ["document", "spec_v1", "spec_v2"])
def test_root_is_never_released_or_edited_and_main_never_deleted(rule: str) -> None:
    plan = plan_expiration(
        history_of(LINEAR, 1), at(99), rule=rule, delete_expired_branches=True, delete_expired_tags=True
    )
    assert "0" not in plan.released
    assert "0" not in [edit.snapshot for edit in plan.edits]
    assert plan.after.branches == {"main": "4"}
    assert plan.ancestries()["branch:main"][-1] == "0"


def test_document_rule_never_releases_what_a_ref_points_to() -> None:
    graph = Graph(LINEAR.nodes, {"main": "4", "old": "2"}, {"keep": "1"})
    plan = plan_expiration(history_of(graph, 1), at(3.5), rule="document")
    assert set(plan.released) == {"3"}
    assert plan.ancestries()["branch:old"] == ["2", "1", "0"]


@pytest.mark.parametrize("rule", ["document", "spec_v1", "spec_v2"])
def test_what_only_deleted_refs_held_is_no_history_any_more(rule: str) -> None:
    graph = Graph(LINEAR.nodes, {"main": "4", "old": "3"}, {"tag": "2"})
    plan = plan_expiration(
        history_of(graph, 1), at(3.5), rule=rule, delete_expired_branches=True, delete_expired_tags=True
    )
    assert {ref.label for ref in plan.refs_deleted} == {"branch:old", "tag:tag"}
    assert set(plan.after.snapshots) == {"0", "4"}


@pytest.mark.parametrize("rule", ["document", "spec_v1"])
def test_while_a_snapshot_with_the_time_of_an_earlier_expiration_lives_its_path_stays(rule: str) -> None:
    nodes = (
        *(("1", "0", 5), ("2", "1", 2), ("3", "2", 3), ("4", "3", 6)),
        *(("7", "0", 1), ("8", "7", 2), ("9", "8", 6)),
    )
    graph = Graph(nodes, {"main": "4", "expired": "3", "other": "9"})
    history = replace(history_of(graph, 1), restamped=frozenset({"1"}))
    for threshold in (4, 5):
        plan = plan_expiration(history, at(threshold), rule=rule)
        assert [(edit.snapshot, edit.new_parent) for edit in plan.edits] == [("9", "0")]
        assert set(plan.released) == {"7", "8"}
    later = plan_expiration(history, at(5.5), rule=rule)
    assert ("4", "0") in [(edit.snapshot, edit.new_parent) for edit in later.edits], "it does not live"


@pytest.mark.parametrize("rule", ["document", "spec_v1", "spec_v2"])
def test_snapshot_not_newer_than_its_parent_stops_the_plan_and_is_named(rule: str) -> None:
    graph = Graph((("1", "0", 1), ("2", "1", 9), ("3", "2", 3)), {"main": "3"})
    with pytest.raises(RefusedError, match="snapshot 3"):
        plan_expiration(history_of(graph, 1), at(5), rule=rule)


def test_root_newer_than_its_children_stops_the_plan() -> None:
    entries = {"0": SnapshotEntry("0", None, 1000, ""), "1": SnapshotEntry("1", "0", 10, "")}
    with pytest.raises(RefusedError):
        plan_expiration(History(2, entries, {"main": "1"}, {}), instant(500))


def test_ref_to_a_missing_snapshot_is_refused_and_named() -> None:
    with pytest.raises(FormatError, match="tag:t"):
        plan_expiration(
            History(2, {"1": SnapshotEntry("1", None, 2, "")}, {"main": "1"}, {"t": "gone"}), instant(5)
        )


def test_naive_threshold_and_unknown_rule_are_refused() -> None:
    history = history_of(LINEAR, 1)
    with pytest.raises(ConfigError, match="time zone"):
        plan_expiration(history, datetime(2026, 1, 1))
    with pytest.raises(ConfigError):
        plan_expiration(history, at(1), rule="spec_v9")


def test_digest_changes_with_the_history_and_with_the_decision() -> None:
    history = history_of(LINEAR, 1)
    plan = plan_expiration(history, at(2.5))
    assert plan.digest == plan_expiration(history, at(2.5)).digest
    assert plan.digest != plan_expiration(history, at(3.5)).digest
    moved = history_of(Graph(LINEAR.nodes, {"main": "4", "other": "4"}), 1)
    assert plan.digest != plan_expiration(moved, at(2.5)).digest


def test_page_of_a_plan_escapes_names_and_cuts_long_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "ROWS_MAX", 2)
    entries = {"0": SnapshotEntry("0", None, 1, "<b>&"), "1": SnapshotEntry("1", "0", 2, '"')}
    branches = {"main": "1", "<script>": "1", "qa": "1", "test": "1"}
    shown = plan_page("s3://b/<x>", plan_expiration(History(1, entries, branches, {}), instant(0)))
    assert "<title>Expiration plan of s3://b/&lt;x&gt;</title>" in shown
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;") == 1  # the refs; the history is cut
    assert "<p>2 more are in <code>plan.json</code>.</p>" in shown
    assert "<p>None.</p>" in shown
