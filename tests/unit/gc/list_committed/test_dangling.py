"""What young commits keep alive to which no ref leads is kept, with a request for each that is not known yet."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dredge.errors import RefusedError
from dredge.gc.list_committed import dangling
from dredge.gc.list_committed.active import OWN, ActiveCommits, find_active
from dredge.gc.list_committed.sources import RECORDS, SERVER, Found
from dredge.lakefs import Commit, Rules
from tests.support.few_commits import EXTRA, GRAPH, MAIN, RULES, Server, commit, csv, run_of


class Asked(Server):
    """Notes which commits it is asked for one by one, but for those of its logs."""

    def __init__(self, extra: dict[str, Commit], *listed: str, rules: Rules | None = RULES) -> None:
        super().__init__(GRAPH | extra, rules, csv("c", "d", "t", *listed))
        self.asked: list[str] = []

    def commit(self, repository: str, commit_id: str) -> Commit:
        if repository:
            self.asked.append(commit_id)
        return super().commit(repository, commit_id)


def found_active(server: Server, looked_at: Collection[str] = ()) -> ActiveCommits:
    return find_active(run_of(server, keep_tags=False), looked_at)


def kept(server: Server, looked_at: Collection[str] = ()) -> set[str]:
    """What is active beside what the server lists and branches keep."""
    return found_active(server, looked_at).metaranges.keys() - {"c", "d", "t"}


def test_the_parent_of_a_young_commit_is_active_though_the_servers_walk_left_it_out() -> None:
    server = Asked(EXTRA, "y")
    found = found_active(server)
    assert found.metaranges["x"] == "m-x"
    (own,) = found.kept
    assert (own.name, set(own.commits)) == (OWN, {"c", "d", "t", "x"})
    assert any("left out 1 commits" in text for text in found.warnings)
    assert "x" not in found.graph, "no ref leads there"
    assert server.asked == ["y", "x"]


def test_an_old_commit_keeps_nothing_of_the_default_rule() -> None:
    for days, stays in ((9.99, True), (10.01, False)):
        line = {"x": EXTRA["x"], "y": commit("y", "x", days=days)}
        assert ("x" in kept(Asked(line, "y", rules=Rules(10, {"main": 90})))) is stays


def test_times_that_differ_by_minutes_keep() -> None:
    minute = 1 / 24 / 60
    for days, keeps in ((10 + 4 * minute, {"x", "y"}), (10 + 5 * minute, {"y"}), (10 + 6 * minute, {"y"})):
        assert kept(Asked({"x": EXTRA["x"], "y": commit("y", "x", days=days)}, "y")) == keeps


def test_a_line_is_followed_as_long_as_it_is_young_also_where_refs_lead_to_it() -> None:
    line = {
        "z": commit("z", "w", days=3),
        "w": commit("w", "u", days=4),
        "u": commit("u", "b", days=5),
    }
    server = Asked(line, "z")
    assert kept(server) == {"z", "w", "u", "b"}
    assert server.asked == ["z", "w", "u"], "b is in the history of a branch"


def test_what_has_no_parent_keeps_nothing_else() -> None:
    assert kept(Asked({"y": commit("y", days=1)}, "y")) == {"y"}


def test_of_a_merge_the_main_parent_is_kept() -> None:
    first = Commit("y", ("x", "b"), commit("", days=1).created_at, "m-y", 1)
    last = Commit("y", ("b", "x"), first.created_at, "m-y", 0)
    for merge in (first, last):
        assert kept(Asked({"x": EXTRA["x"], "y": merge}, "y")) == {"x", "y"}


def test_what_was_looked_at_before_is_not_asked_for_again() -> None:
    server = Asked(EXTRA | {"z": commit("z", "y", days=1)}, "y", "z")
    assert kept(server, ("y", "x")) == {"y", "z"}
    assert server.asked == ["z"]


def test_a_commit_of_the_list_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(RefusedError, match="leads to x, and lakeFS does not know that"):
        kept(Asked({"y": EXTRA["y"]}, "y"))


def test_of_very_many_some_are_asked_for_and_the_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dangling.REQUESTS_MAX == 20_000
    monkeypatch.setattr(dangling, "REQUESTS_MAX", 1)
    server = Asked(EXTRA | {"z": commit("z", "b", days=1)}, "y", "z")
    found = found_active(server)
    assert server.asked == ["y", "x"]
    assert [text for text in found.warnings if text.startswith("1 active commits to which no ref leads")]
    assert not found_active(Asked(EXTRA, "y")).warnings[1:]


def test_what_records_have_is_not_asked_for() -> None:
    server = Asked({}, "y")
    listed = {SERVER: {"y": "m-y"}, RECORDS: {"y": "m-y"}}
    found = Found([MAIN], [], GRAPH, RULES, False, listed, EXTRA)
    assert dangling.kept_by_dangling(run_of(server), found, ()) == {}
    assert server.asked == []
