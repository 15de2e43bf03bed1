"""Refs, history and active commits of each source as it gives them, and what makes an answer no answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.list_committed import history
from dredge.gc.list_committed.history import Found, find_history
from dredge.lakefs import PreparedCommits, Ref
from tests.support.few_commits import EXTRA, GRAPH, MAIN, TAG, TOPIC, Server, csv, run_of


class Recorded:
    """What the key-value store has."""

    branches = [TOPIC, MAIN]
    tags = [TAG]
    commits = GRAPH | EXTRA


def from_records(monkeypatch: pytest.MonkeyPatch, server: Server, doubt: str = "", **config: Any) -> Found:
    standing = SimpleNamespace(doubt=doubt, location="postgres://x")
    monkeypatch.setattr(history, "look", lambda *_: (Recorded(), standing))
    return find_history(run_of(server, read_kv=True, **config))


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
