"""What keeps commits beyond the server's answer, and which of them expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dredge.gc.list_committed.active import ActiveCommits
from dredge.gc.retention.kept_sets import KeptSet
from dredge.lakefs import Commit, Ref

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TAGS = KeptSet("tags", "why", frozenset({"a", "b", "dangling"}))
LOGS = KeptSet("policy: logs", "why", frozenset({"b", "c"}), ("logs/*",))
DATA = KeptSet("policy: data", "why", frozenset({"c", "d"}), ("data/*",))


def active(all_commits: bool = False) -> ActiveCommits:
    """Commits from `a` on, each a day younger than the one before; `a` and `x`, which no ref leads to, are active."""
    graph = {name: Commit(name, (), NOW + timedelta(days=at), f"m-{name}") for at, name in enumerate("abcd")}
    return ActiveCommits(
        metaranges={"a": "m-a", "x": "m-x", "empty": ""},
        base={"a", "x"},
        kept=[TAGS, LOGS, DATA],
        sources={},
        all_commits=all_commits,
        branches=[Ref("main", "d"), Ref("topic", "a")],
        tags=[],
        graph=graph,
    )


def test_what_refs_lead_to_and_is_not_active_is_expired_the_newest_first() -> None:
    assert [commit.id for commit in active().expired] == ["d", "c", "b"]


def test_what_is_active_and_no_ref_leads_to_is_dangling() -> None:
    assert active().dangling == {"x", "empty"}


def test_metaranges_are_those_of_active_commits_or_of_the_history() -> None:
    found = active()
    assert [found.metarange_of(name) for name in ("a", "x", "empty", "c")] == ["m-a", "m-x", "", "m-c"]
    found.metaranges["a"] = "moved"
    assert found.metarange_of("a") == "moved"
    assert found.heads == {"a", "d"}


def test_sets_about_paths_are_told_by_name_and_commit() -> None:
    assert active().path_commits == {(LOGS.name, "b"), (LOGS.name, "c"), (DATA.name, "c"), (DATA.name, "d")}


def kept(found: list[KeptSet]) -> dict[str, set[str]]:
    return {item.name: set(item.commits) for item in found}


def test_what_the_base_has_is_not_kept_beyond_it() -> None:
    everything = {TAGS.name: {"b", "dangling"}, LOGS.name: {"b", "c"}, DATA.name: {"c", "d"}}
    assert kept(active().kept_beyond_base()) == everything
    assert [item.paths for item in active().kept_beyond_base()] == [(), LOGS.paths, DATA.paths]
    assert active(all_commits=True).kept_beyond_base() == []


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        (set(), [set(), set(), set()]),
        ({(LOGS.name, "c"), (LOGS.name, "unknown")}, [set(), {"c"}, set()]),
        ({(LOGS.name, "b"), (DATA.name, "c")}, [set(), {"b"}, {"c"}]),
        ({(TAGS.name, "b")}, [set(), set(), set()]),
    ],
)
def test_only_commits_that_are_asked_for_of_sets_about_paths(
    only: set[tuple[str, str]], wanted: list[set[str]]
) -> None:
    found = active().kept_beyond_base(only)
    assert [set(item.commits) for item in found] == wanted
    assert [item.name for item in found] == [TAGS.name, LOGS.name, DATA.name]
