"""What young commits keep alive to which no ref leads is kept, with a request for each that is not known yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from dredge.errors import RefusedError
from dredge.gc.list_committed.active import OWN, ActiveCommits, find_active
from dredge.gc.retention.active import active_commits
from dredge.lakefs import Commit, Ref, Rules
from dredge.lakefs.files.gc_files import Rules as CatalogRules
from dredge.lakefs.files.records import Branch
from dredge.lakefs.files.records import Commit as Record
from tests.support.commit_histories import histories
from tests.support.few_commits import EXTRA, GRAPH, NOW, RULES, Server, commit, csv, run_of


class Asked(Server):
    """Notes which commits it is asked for one by one, for which logs, and the commits that were read of logs."""

    def __init__(self, extra: dict[str, Commit], *listed: str, rules: Rules | None = RULES) -> None:
        super().__init__(GRAPH | extra, rules, csv("c", "d", "t", *listed))
        self.asked: list[str] = []
        self.logs: list[str] = []
        self.paged: list[str] = []

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        self.logs.append(ref)
        for found in super().log(repository, ref):
            self.paged.append(found.id)
            yield found

    def commit(self, repository: str, commit_id: str) -> Commit:
        if repository:
            self.asked.append(commit_id)
        return super().commit(repository, commit_id)


def found_active(server: Server) -> ActiveCommits:
    return find_active(run_of(server, keep_tags=False))


def kept(server: Server) -> set[str]:
    """What is active beside what the server lists and branches keep."""
    return found_active(server).metaranges.keys() - {"c", "d", "t"}


def test_the_parent_of_a_young_commit_is_active_though_the_servers_walk_left_it_out() -> None:
    server = Asked(EXTRA, "y")
    found = found_active(server)
    assert found.metaranges["x"] == "m-x"
    (own,) = found.kept
    assert (own.name, set(own.commits)) == (OWN, {"c", "d", "t", "x"})
    assert found.warnings
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
    assert server.asked == ["z", "w"], "u comes with the log of w, and b is in the history of a branch"


@pytest.mark.parametrize(
    ("parents", "asked"),
    [(("w",), ["y", "x"]), (("w", "b"), ["y", "x"]), (("w", "lost"), ["y", "x", "w"])],
    ids=["one", "merge", "merge of what is lost"],
)
def test_a_young_commit_behind_an_old_one_keeps_its_parent_as_well(
    parents: tuple[str, ...], asked: list[str]
) -> None:
    """Clients give commits any date. The rest of a line is read by pages; one that lakeFS cannot give, by commits."""
    line = {
        "y": commit("y", "x", days=5),
        "x": commit("x", *parents, days=80),
        "w": commit("w", "v", days=3),
        "v": commit("v", days=85),
    }
    server = Asked(line, "y")
    assert kept(server) == {"y", "x", "v"}
    assert server.asked == asked


def test_what_has_no_parent_keeps_nothing_else_and_has_no_log_to_be_read() -> None:
    assert kept(Asked({"y": commit("y", days=1)}, "y")) == {"y"}
    server = Asked(EXTRA, "y")
    assert kept(server) == {"x", "y"}
    assert server.logs == ["main", "topic"]


def test_of_a_merge_the_main_parent_is_kept() -> None:
    first = Commit("y", ("x", "b"), commit("", days=1).created_at, "m-y", 1)
    last = Commit("y", ("b", "x"), first.created_at, "m-y", 0)
    for merge in (first, last):
        assert kept(Asked({"x": EXTRA["x"], "y": merge}, "y")) == {"x", "y"}


def test_more_days_than_a_calendar_has_keep_all() -> None:
    assert kept(Asked(EXTRA, "y", rules=Rules(10**7))) == {"x", "y", "a", "b"}
    assert kept(Asked(EXTRA, "y", rules=Rules(-(10**7)))) == {"y"}


def test_a_commit_of_the_list_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(RefusedError, match=r"\bx\b"):
        kept(Asked({"y": EXTRA["y"]}, "y"))


class Drawn(Server):
    """Has a history that was drawn, and lists what the server's walk finds of it."""

    def __init__(self, commits: list[Record], branches: list[Branch], rules: CatalogRules) -> None:
        known = (Commit(item.id, item.parents, item.creation_date, "m", item.version) for item in commits)
        listed = active_commits(commits, branches, rules, NOW, early_stop=True)
        days = Rules(rules.default_days, rules.branch_days)
        super().__init__({item.id: item for item in known}, days, csv(*listed, metarange="m"))
        self.refs = {branch.name: branch.commit_id for branch in branches}

    def branches(self, _: str) -> list[Ref]:
        return [Ref(*found) for found in self.refs.items()]

    def tags(self, _: str) -> list[Ref]:
        return []


@given(histories(NOW, in_order=True))
@settings(deadline=None)
def test_where_dates_are_in_order_no_active_commit_is_left_out(
    history: tuple[list[Record], list[Branch], CatalogRules],
) -> None:
    """Behind an old commit that no ref leads to, and that the server does not list, nobody can know of a young one."""
    commits, branches, rules = history
    assert (
        active_commits(commits, branches, rules, NOW).keys()
        <= found_active(Drawn(*history)).metaranges.keys()
    )
