"""What must not be called trash, rule by rule; breaking the rule makes its test fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.kv import Entry
from dredge.trash.look import look_through, read_look
from dredge.trash.rules import classify
from dredge.trash.settings import TrashMargins
from tests.support.kv_world import DAY, START, LiveView, World

# Fail closed


@pytest.mark.parametrize(
    ("partition", "key", "value"),
    [
        (b"graveler", b"repos/bad", b"\xff\xff"),
        (b"graveler", b"repos/bad", b""),
        (b"LIVE", b"branches/bad", b"\xff\xff"),
        (b"LIVE", b"branches/bad", b""),
        (b"LIVE", b"commits/bad", b"\xff\xff"),
        (b"LIVE", b"tags/bad", b"\xff\xff"),
        (b"ZOMBIE", b"branches/bad", b"\xff\xff"),
        (b"ZOMBIE", b"commits/bad", b""),
    ],
)
def test_a_record_that_cannot_be_read_ends_the_run(
    world: World, partition: bytes, key: bytes, value: bytes
) -> None:
    live, _ = world.repository("lake")
    zombie, _ = world.beginning("zombie")
    world.kv.set({b"LIVE": live, b"ZOMBIE": zombie}.get(partition, partition), key, value)
    with pytest.raises(FormatError):
        read_look(world.store)


@pytest.mark.parametrize("version", [None, b"3", b"5", b""])
def test_another_schema_version_ends_the_run(world: World, version: bytes | None) -> None:
    world.kv.delete(b"kv-internal-metadata", b"kv/schema/version")
    if version is not None:
        world.kv.set(b"kv-internal-metadata", b"kv/schema/version", version)
    with pytest.raises(RefusedError):
        read_look(world.store)


def test_without_snapshots_what_comes_into_use_during_the_look_is_not_judged(world: World) -> None:
    """DynamoDB: the token is named after the candidates were read; the later read wins."""
    partition, main = world.repository("lake")
    token = world.stage(world.token("lake", "main"))
    dropped = world.token("lake", "old")
    world.stage(dropped)
    world.branch(partition, "old", "head", dropped)
    zombie, _ = world.beginning("late", uid=xid.new_xid(START - 9 * DAY))
    doomed, _ = world.repository("doomed")

    class Shifting(LiveView):
        """A view in which things happen once the candidates were read."""

        reads = 0

        def scan(self, name: bytes, start: bytes = b"") -> Iterator[Entry]:
            if name == b"graveler":
                self.reads += 1
                if self.reads == 2:  # the references that count
                    world.branch(partition, "main", "head", token.decode(), sealed=[main])
                    world.kv.delete(partition, b"branches/old")
                    world.record(zombie)
                    world.kv.delete(b"graveler", b"repos/doomed")
            return super().scan(name, start)

    look = look_through(Shifting(world.kv, world.store.rows))
    found = {
        f.partition: f.verdict
        for f in classify(look, START + 99 * DAY, TrashMargins(grace=timedelta(0), unsafe_short_grace=True))
    }
    assert token not in found
    assert zombie not in found
    assert found[dropped.encode()] == "wait"
    assert found[doomed] == "wait"


def test_findings_are_in_order_of_partition_and_key(world: World) -> None:
    """A plan, and what an approval is bound to, is the same at every look."""
    for name in ("echo", "alpha", "delta", "bravo", "charlie"):
        world.record(world.beginning(name)[0], state=1)
    live, _ = world.repository("lake")
    world.branch(live, "odd", "head", "pulls")  # a branch may name anything
    world.queue("pulls")
    world.kv.set(b"pulls", b"odd", b"")
    findings = classify(read_look(world.store), START, TrashMargins())
    places = [(finding.partition, finding.key or b"") for finding in findings]
    assert places == sorted(places)
    assert len(places) > 15
    assert {(b"pulls", b""), (b"pulls", b"odd")} <= {*places}
