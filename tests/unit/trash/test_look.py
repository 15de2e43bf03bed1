"""What one look at a store keeps, and what it leaves unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dredge import xid
from dredge.errors import FormatError
from dredge.kv import Entry
from dredge.trash.look import (
    Look,
    look_through,
    read_look,
)
from dredge.trash.rules import classify
from tests.support.kv_world import DAY, START, LiveView, World
from tests.support.trash import MARGINS


def test_a_commit_record_under_another_id_ends_the_look(world: World) -> None:
    partition, _ = world.beginning("lake")
    made = world.commit(partition, parents=["x"])
    world.kv.set(partition, b"commits/other", made.encode())
    with pytest.raises(FormatError):
        read_look(world.store)


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
