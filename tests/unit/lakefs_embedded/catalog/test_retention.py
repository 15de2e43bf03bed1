"""The active commits of a history."""

from datetime import timedelta

import pytest
from hypothesis import given, settings

from dredge.errors import NotFoundError
from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog.garbage import Rules, active_commits
from lakefs_embedded.refs.records import Commit
from tests.support.commit_histories import histories
from tests.support.lakes import START

NOW = START


def graph(*specs: str) -> list[Commit]:
    """`a15` is 15 days old; `d5<a` has main parent a; `d6<c,a` is a merge."""
    commits = []
    for spec in specs:
        head, _, parents = spec.partition("<")
        name = head.rstrip("0123456789") if not head.startswith("head") else head[:5]
        age = int(head[len(name) :])
        commits.append(
            Commit(
                name,
                "",
                "",
                NOW - timedelta(days=age),
                "",
                parents=tuple(parents.split(",")) if parents else (),
            )
        )
    return commits


def active(commits: list[Commit], heads: dict[str, int], default: int = 5, **more: bool) -> set[str]:
    branches = [Branch(f"on-{commit}", commit, "") for commit in heads]
    rules = Rules(default, {f"on-{commit}": days for commit, days in heads.items()})
    return set(active_commits(commits, branches, rules, NOW, **more))


BASIC = ("a15", "b10<a", "c10<a", "d5<c", "e5<b", "f1<e")


def test_the_newest_commit_beyond_the_threshold_stays_active_on_each_line() -> None:
    assert active(graph(*BASIC), {"f": 7, "d": 3}) == {"b", "d", "e", "f"}


def test_second_parents_retain_nothing() -> None:
    merged = graph("a7", "b6<a", "c7", "d6<c,a")
    assert active(merged, {"b": 3, "d": 10}) == {"b", "c", "d"}


def two_lines(old: str, young: str) -> list[Commit]:
    return [
        Commit("x", "", "", NOW - timedelta(days=70), "mx"),
        Commit(old, "", "", NOW - timedelta(days=60), "", parents=("x",)),
        Commit(young, "", "", NOW - timedelta(days=1), "", parents=("x",)),
    ]


@pytest.mark.parametrize(("old", "young"), [("a1", "b1"), ("b1", "a1")])
def test_trap_19_the_order_of_commit_ids_does_not_matter(old: str, young: str) -> None:
    assert active(two_lines(old, young), {old: 30, young: 30}) == {"x", "a1", "b1"}


def test_trap_19_the_servers_early_stop_loses_a_commit_in_one_order() -> None:
    lost = active(two_lines("a1", "b1"), {"a1": 30, "b1": 30}, early_stop=True)
    found = active(two_lines("b1", "a1"), {"a1": 30, "b1": 30}, early_stop=True)
    assert lost == {"a1", "b1"}
    assert found == {"a1", "b1", "x"}


def test_trap_21_the_main_parent_of_a_version_0_merge_is_the_last() -> None:
    commits = [
        Commit("a", "", "", NOW - timedelta(days=50), ""),
        Commit("b", "", "", NOW - timedelta(days=50), ""),
        Commit("m", "", "", NOW, "", parents=("a", "b"), version=0),
        Commit("n", "", "", NOW, "", parents=("a", "b"), version=1),
    ]
    assert active(commits, {"m": 30}) >= {"m", "b"}
    assert "a" not in active(commits[:3], {"m": 30})
    assert "b" not in active([*commits[:2], commits[3]], {"n": 30})


def test_the_threshold_is_strict() -> None:
    commits = graph("a50", "b30<a")
    assert active(commits, {"b": 30}) == {"b"}
    assert active(commits, {"b": 31}) == {"a", "b"}


def test_a_missing_head_or_parent_stops_the_computation() -> None:
    with pytest.raises(NotFoundError):
        active(graph("a1"), {"gone": 3})
    with pytest.raises(NotFoundError):
        active(graph("b1<a"), {"b": 3})


def test_a_commit_made_while_commits_were_listed_is_read_by_its_id() -> None:
    listed, late = graph("a9"), graph("b2<a", "c1<b")
    made = {commit.id: commit for commit in late}
    found = active_commits(listed, [Branch("m", "c", "")], Rules(5, {}), NOW, find=made.__getitem__)
    assert set(found) == {"a", "b", "c"}


def test_rules_survive_writing_and_reading() -> None:
    rules = Rules(21, {"main": 28, "dev": 7, "zero": 0, "minus": -1})
    assert Rules.decode(rules.encode()) == rules


def test_trap_29_zero_rules_read_as_no_rules() -> None:
    assert Rules(0).encode() == b""
    assert Rules.decode(Rules(0).encode()) is None


def test_more_days_than_a_calendar_holds_keep_everything() -> None:
    assert active(graph("a9000", "b8000<a"), {"b": 2**31 - 1}, default=2**31 - 1) == {"a", "b"}


def by_definition(commits: list[Commit], branches: list[Branch], rules: Rules) -> set[str]:
    """Walk every line to its root and remember nothing."""
    by_id = {commit.id: commit for commit in commits}
    heads = {branch.commit_id for branch in branches}
    mains = {commit.main_parent for commit in commits}
    starts = [(by_id[branch.commit_id], rules.threshold(START, branch.name)) for branch in branches]
    starts += [
        (commit, rules.threshold(START, None))
        for commit in commits
        if commit.id not in mains and commit.id not in heads
    ]
    active = set(heads)
    for commit, threshold in starts:
        if commit.id not in heads and commit.creation_date > threshold:
            active.add(commit.id)
        while commit.main_parent is not None:
            if commit.creation_date > threshold:
                active.add(commit.main_parent)
            commit = by_id[commit.main_parent]
    return active


@given(histories())
@settings(deadline=None)
def test_active_commits_are_those_of_the_definition(
    history: tuple[list[Commit], list[Branch], Rules],
) -> None:
    commits, branches, rules = history
    assert set(active_commits(commits, branches, rules, START)) == by_definition(commits, branches, rules)


@given(histories())
@settings(deadline=None)
def test_active_commits_hold_all_that_the_server_finds(
    history: tuple[list[Commit], list[Branch], Rules],
) -> None:
    commits, branches, rules = history
    ours = set(active_commits(commits, branches, rules, START))
    servers = set(active_commits(commits, branches, rules, START, early_stop=True))
    assert servers <= ours
