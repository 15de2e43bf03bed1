"""Refs, history and active commits of each source as it gives them, and what makes an answer no answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.list_committed import sources
from dredge.gc.list_committed.sources import RECORDS, SERVER, Found, find_history
from dredge.lakefs import Commit, PreparedCommits, Ref
from tests.support.few_commits import EXTRA, GRAPH, MAIN, RULES, TAG, TOPIC, Server, csv, run_of


def test_a_list_that_differs_from_the_log_or_is_empty_stops_the_run() -> None:
    with pytest.raises(FormatError):
        find_history(run_of(Server(listed=csv("d", "t", metarange="another"))))
    with pytest.raises(RefusedError, match="2 branches"):
        find_history(run_of(Server(listed=csv())))


def test_a_repository_without_branches_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "branches", lambda *_: [])
    with pytest.raises(RefusedError):
        find_history(run_of(Server(listed=csv("d"))))


class Recorded:
    """What the key-value store has."""

    branches = [TOPIC, MAIN]
    tags = [TAG]
    commits = GRAPH | EXTRA


def from_records(monkeypatch: pytest.MonkeyPatch, server: Server, doubt: str = "", **config: Any) -> Found:
    standing = SimpleNamespace(doubt=doubt, location="postgres://x")
    monkeypatch.setattr(sources, "look", lambda *_: (Recorded(), standing))
    return find_history(run_of(server, read_kv=True, **config))


def test_records_give_the_active_commits_of_refs_and_of_lines_that_no_ref_leads_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = from_records(monkeypatch, Server())
    assert found.listed == {RECORDS: {name: f"m-{name}" for name in ("c", "d", "t", "x", "y")}}
    assert (found.branches, found.tags, found.graph) == ([MAIN, TOPIC], [TAG], GRAPH)
    assert (found.rules, found.all_commits, found.records) == (RULES, False, Recorded.commits)
    without = from_records(monkeypatch, Server(rules=None))
    assert (without.listed, without.all_commits) == ({}, True)


@pytest.mark.parametrize("keep_tags", [True, False])
def test_of_records_a_tag_without_its_commit_stops_the_run_where_tags_keep(
    keep_tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorded, "tags", [Ref("v2", "lost")])
    if keep_tags:
        with pytest.raises(RefusedError, match=r"v2.*\blost\b"):
            from_records(monkeypatch, Server())
    else:
        assert from_records(monkeypatch, Server(), keep_tags=False).graph == GRAPH


@pytest.mark.parametrize(
    "asked", [{"doubt": "it is a copy"}, {"live_source": "both"}, {"doubt": "x", "live_source": "both"}]
)
def test_in_doubt_or_where_it_is_asked_for_the_server_counts_besides(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = from_records(monkeypatch, Server(listed=csv("d", "t", "b")), **asked)
    assert found.listed[SERVER].keys() == {"b", "d", "t"}
    assert found.listed[RECORDS].keys() == {"c", "d", "t", "x", "y"}
    assert found.records == Recorded.commits
    assert bool(found.warnings) == ("doubt" in asked)
    without = from_records(monkeypatch, Server(rules=None), **asked)
    assert without.listed == {RECORDS: {name: f"m-{name}" for name in GRAPH}}
    assert without.all_commits


def test_records_that_differ_from_the_log_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Recorded, "commits", GRAPH | {"c": Commit("c", ("b",), GRAPH["c"].created_at, "another")}
    )
    with pytest.raises(FormatError, match="postgres://x"):
        from_records(monkeypatch, Server(listed=csv("d")), doubt="it is a copy")


def test_records_are_read_commits_last() -> None:
    """A ref that is read after the commits may name one that is not among them."""
    asked = []

    class Records:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return list

    sources._Recorded(cast("Any", Records()))
    assert asked == ["branches", "tags", "commits"]


def test_rules_that_are_deleted_while_the_server_computes_count_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, honest = Server(listed=csv("d")), Server.prepare_commits

    def prepare(self: Server, *_: object) -> PreparedCommits | None:
        self.listed_rules = None
        return honest(self)

    monkeypatch.setattr(Server, "prepare_commits", prepare)
    found = find_history(run_of(server))
    assert (found.all_commits, found.rules) == (True, None)
    assert found.warnings


def test_the_records_are_not_looked_at_where_they_are_not_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "look", lambda *_: pytest.fail("looked at"))
    assert find_history(run_of(Server(listed=csv("d", "t")))).listed.keys() == {SERVER}


@pytest.mark.parametrize("keep_tags", [True, False])
def test_the_history_of_tags_is_read_where_they_keep(
    keep_tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "tags", lambda *_: [Ref("v1", "y")])
    server = Server(GRAPH | EXTRA, listed=csv("d", "t"))
    server.refs["v1"] = "y"
    found = find_history(run_of(server, keep_tags=keep_tags))
    assert found.tags == [Ref("v1", "y")]
    assert found.graph == (GRAPH | EXTRA if keep_tags else GRAPH)
