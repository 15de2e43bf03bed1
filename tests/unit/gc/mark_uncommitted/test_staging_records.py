"""With staging records: when the server is asked besides, which heads are seen, and what the records lack."""

from __future__ import annotations

import pytest

from dredge.gc.mark_uncommitted.staging import Staging, scan_staging
from tests.support.gc import make_world
from tests.support.kv_views import WithoutSnapshots, copy_of, open_as


class Moving:
    """A world whose branch moves whenever lakeFS is asked something, and the heads that each reader should have seen.

    Attributes:
        listed: the head at each listing of branches.
        read: the head at each reading of the records.
        scans: of the server.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, live_source: str, tells: bool) -> None:
        self.world = make_world(read_kv=True, live_source=live_source)
        self.world.upload("a", b"staged")
        self.run = self.world.plan()
        self.listed: list[str] = []
        self.read: list[str] = []
        self.scans = self.moves = 0
        self.tells = tells
        open_as(WithoutSnapshots(self.world, self._reading), monkeypatch)
        self.world.client.before = self._before
        if not tells:
            self.world.client.usage = lambda: None  # type: ignore[method-assign]

    def _before(self, name: str, _arguments: object) -> None:
        if name in ("branches", "prepare_uncommitted", "clock"):
            self._move()
        if name == "branches":
            self.listed.append(self._head())
        self.scans += name == "prepare_uncommitted"

    def _reading(self, partition: bytes) -> None:
        if partition == b"graveler":  # the repository's record, before its branches
            self._move()
            self.read.append(self._head())

    def _move(self) -> None:
        self.moves += 1
        self.world.upload("b", b"%d" % self.moves)
        self.world.lake.commit("move")
        self.world.upload("b", b"staged")

    def _head(self) -> str:
        return self.world.lake.catalog.branches.get_branch(self.world.lake.repository, "main").commit_id

    def scan(self) -> Staging:
        return scan_staging(self.run, "scan")


def seen(found: Staging) -> set[str]:
    return {commit for _, commit in found.heads}


@pytest.mark.parametrize(("live_source", "tells"), [("auto", False), ("both", True), ("both", False)])
def test_where_the_server_is_asked_too_it_scans_once_and_every_head_counts(
    monkeypatch: pytest.MonkeyPatch, live_source: str, tells: bool
) -> None:
    moving = Moving(monkeypatch, live_source, tells)
    found = moving.scan()
    assert moving.scans == len(found.server_runs) == (1 if tells or live_source == "auto" else 2)
    assert len(moving.read) == (2 if live_source == "auto" else 1)
    assert set(moving.read) <= seen(found)
    assert {moving.listed[0], moving.listed[-1]} <= seen(found)
    assert (found.proof is None) is tells, "records of which nobody knows what they lack prove no scan"
    assert found.records is not None


@pytest.mark.parametrize("drop", [True, False])
def test_records_that_prove_nothing_are_compared_with_what_the_server_showed(
    monkeypatch: pytest.MonkeyPatch, drop: bool
) -> None:
    world = make_world(read_kv=True)
    world.upload("a", b"1")
    world.upload("b", b"2")
    copied = copy_of(world)
    if drop:
        (token,) = world.lake.tokens()
        copied.delete(token.encode(), b"b")
    open_as(WithoutSnapshots(world, kv=copied), monkeypatch)
    world.client.usage = lambda: None  # type: ignore[method-assign]
    found = scan_staging(world.plan(), "scan")
    assert found.records is not None
    assert (found.records.missing, found.records.unseen) == (int(drop), 0)
    assert found.records.exact is not drop
    assert len(found.scanned) == 2
