"""What one look at a store keeps, and what it leaves unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dredge import xid
from dredge.errors import FormatError
from dredge.kv import Entry
from dredge.kv.rows import Row
from dredge.trash.look import (
    Look,
    contents_of,
    look_through,
    read_look,
)
from dredge.trash.rules import classify
from tests.support.kv_world import DAY, START, LiveView, World
from tests.support.trash import MARGINS, Watcher


def row(key: bytes, value: bytes) -> Row:
    return Row(b"p", key, value)


def test_contents_add_up_and_differ_where_a_byte_moves() -> None:
    found = contents_of([row(b"a", b"bc"), row(b"d", b"")])
    assert found is not None
    assert (found.rows, found.size_bytes) == (2, 4)
    others = [
        [row(b"ab", b"c"), row(b"d", b"")],
        [row(b"a", b"b"), row(b"cd", b"")],
        [row(b"a", b"bd"), row(b"d", b"")],
        [row(b"a", b"bc"), row(b"c", b"")],
        [row(b"a", b"bc")],
    ]
    digests = {contents.digest for rows in others if (contents := contents_of(rows))}
    assert len(digests) == len(others)
    assert found.digest not in digests
    assert contents_of([]) is None


def test_a_commit_record_under_another_id_ends_the_look(world: World) -> None:
    partition, _ = world.beginning("lake")
    made = world.commit(partition, parents=["x"])
    world.kv.set(partition, b"commits/other", made.encode())
    with pytest.raises(FormatError):
        read_look(world.store)


def test_what_is_named_and_has_no_row_is_not_there(world: World, watcher: Watcher) -> None:
    """A live branch rarely has staged changes: its token, queued or not, is no partition."""
    _, token = world.repository("lake")
    world.queue(token)
    look = read_look(world.store)
    assert token.encode() not in look.staging
    assert (token.encode(), None) not in watcher.look()
    world.record(b"bare-" + xid.new_xid(START).encode())
    assert not [name for name in read_look(world.store).instances if name.startswith(b"bare-")]


def test_what_nobody_knows_is_named_once(world: World) -> None:
    world.kv.set(b"strange", b"k", b"v")
    world.kv.set(b"usage", b"k", b"v")
    world.kv.set(b"basicAuth", b"k", b"v")
    assert read_look(world.store).unknown == (b"strange",)


class Shifting(LiveView):
    """A view of a store without snapshots, in which something happens before the references that count, or before
    those that are read first."""

    def __init__(self, world: World, change: Callable[[], None], read: int = 2) -> None:
        super().__init__(world.kv, world.store.rows)
        self._change = change
        self._read = read
        self._reads = 0

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        if partition == b"graveler":
            self._reads += 1
            if self._reads == self._read:
                self._change()
        return super().scan(partition, start)


def verdicts(look: Look) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for finding in classify(look, START + 99 * DAY, MARGINS):
        if finding.key is None:
            found.setdefault(finding.partition, []).append(f"{finding.kind} {finding.verdict}")
    return found


def test_what_was_in_use_a_moment_ago_is_not_judged_by_its_shape_either(world: World) -> None:
    """Branches may name anything: a partition that looks like a repository's, or was one's."""
    lake, main = world.repository("lake")
    zombie, _ = world.beginning("slow", uid=xid.new_xid(START - 9 * DAY))
    world.branch(lake, "main", "head", main, sealed=[zombie.decode()])
    doomed, _ = world.repository("doomed")
    world.queue(doomed.decode())

    def change() -> None:
        world.branch(lake, "main", "head", main, sealed=[doomed.decode()])
        world.kv.delete(b"graveler", b"repos/doomed")

    look = look_through(Shifting(world, change))
    assert verdicts(look) == {zombie: ["in-motion wait"], doomed: ["in-motion wait"]}


def test_the_entry_of_a_repository_that_was_in_use_a_moment_ago_waits(world: World) -> None:
    """Its deletion ends while the look goes on: the partition is there, and not judged yet."""
    doomed, _ = world.repository("doomed")
    entry = b"repo/doomed/" + doomed[-20:]
    world.kv.set(b"graveler_deleted", entry, b"")
    look = look_through(Shifting(world, lambda: world.kv.delete(b"graveler", b"repos/doomed")))
    findings = classify(look, START + 99 * DAY, MARGINS)
    assert [(f.partition, f.key, f.verdict) for f in findings] == [
        (doomed, None, "wait"),
        (b"graveler_deleted", entry, "wait"),
    ]
