"""What one look at a store keeps, and what it leaves unread."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.trash.look import (
    Look,
    References,
    look_through,
    read_look,
    read_references,
)
from dredge.trash.names import (
    is_token,
    parse_instance,
    possible_branches,
)
from dredge.trash.rules import classify
from lakefs_embedded.kv import Entry
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
    doomed, _ = world.repository("doomed")
    entry = b"repo/doomed/" + doomed[-20:]
    world.kv.set(b"graveler_deleted", entry, b"")
    look = look_through(Shifting(world, lambda: world.kv.delete(b"graveler", b"repos/doomed")))
    findings = classify(look, START + 99 * DAY, MARGINS)
    assert [(f.partition, f.key, f.verdict) for f in findings] == [
        (doomed, None, "wait"),
        (b"graveler_deleted", entry, "wait"),
    ]


def references_of(world: World, others: Sequence[bytes] = ()) -> References:
    with world.store.view() as view:
        return read_references(view, others)


def test_branches_of_recorded_and_of_further_partitions_name_tokens(world: World) -> None:
    lake, current = world.repository("lake")
    sealed = [world.token("lake", "main") for _ in range(2)]
    world.branch(lake, "main", "c1", current, sealed=sealed)
    world.branch(lake, "side", "c2", sealed[0])
    other, unrecorded = world.beginning("lake", uid=xid.new_xid(START))
    world.branch(other, "more", "c3", current)

    found = references_of(world)
    assert set(found.partitions) == {record.partition for record in found.repositories.values()}
    assert set(found.repositories) == {"keeper", "lake"}
    assert found.tokens[current.encode()] == {lake}
    assert {token.encode() for token in sealed} < set(found.tokens)
    assert unrecorded.encode() not in found.tokens
    assert found.lives["lake"] == [lake]

    found = references_of(world, [other])
    assert found.tokens[current.encode()] == {lake, other}
    assert found.tokens[unrecorded.encode()] == {other}
    assert set(found.lives["lake"]) == {lake, other}
    assert {name: record.commit for name, record in found.branches[lake].items()} == {
        "main": "c1",
        "side": "c2",
    }
    assert found.branches[lake]["side"].value == world.kv.get(lake, b"branches/side")
    assert found.repositories["lake"].value == world.kv.get(b"graveler", b"repos/lake")


def test_a_record_under_another_name_and_one_of_no_instance_end_the_run(world: World) -> None:
    world.kv.set(b"graveler", b"repos/pond", world.record_value("lake", xid.new_xid(START)))
    with pytest.raises(FormatError):
        references_of(world)
    world.kv.set(b"graveler", b"repos/pond", world.record_value("pond", "no-xid"))
    with pytest.raises(FormatError):
        references_of(world)


def test_a_record_in_a_state_that_nobody_knows_ends_the_run(world: World) -> None:
    partition, _ = world.repository("lake")
    for state in (0, 1, 2):
        world.record(partition, state)
        assert partition in references_of(world).partitions
    world.record(partition, 3)
    with pytest.raises(RefusedError):
        references_of(world)


def test_a_branch_record_under_another_name_ends_the_run(world: World) -> None:
    lake, _ = world.repository("lake")
    record = world.kv.get(lake, b"branches/main")
    assert record is not None
    world.kv.set(lake, b"branches/side", record)
    with pytest.raises(FormatError):
        references_of(world)


UID = "dcrep00ivln1f1ipml70"
"""Made at START; the same in every process of the tests, whose names it is part of."""
UUID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "name",
    [
        UID,
        f"-{UID}",
        f"lake.{UID}",
        f"lake{UID}",
        f"lake-{UID[:-1]}",
        f"lake-{UID[:-1]}z",
        f"lake-{UID.upper()}",
        f"la-{UID}",
        f"Lake-{UID}",
        f"la_ke-{UID}",
        f"-lake-{UID}",
        f"{'a' * 64}-{UID}",
        f"lake-{UID}\n",
        f"l\u00e4ke-{UID}",
        "",
    ],
)
def test_another_shape_is_no_instance(name: str) -> None:
    assert parse_instance(name.encode()) is None


@pytest.mark.parametrize(
    "name",
    [
        f"lake:{UUID}",
        f"lake-main{UUID}",
        f"lake-main:{UUID}0",
        f"lake-main:{UUID[:-1]}",
        f"lake-main:{UUID[:-1]}g",
        f"Lake-main:{UUID}",
        f"la-main:{UUID}",
        f"lake-m/n:{UUID}",
        f"lake-main:{UUID}\n",
        f"l\u00e4ke-main:{UUID}",
        f"import-ingest_range:{UUID}",
    ],
)
def test_another_shape_is_no_token(name: str) -> None:
    assert not is_token(name.encode())


def test_a_token_may_be_of_every_branch_that_its_text_can_be_split_into() -> None:
    assert possible_branches(f"my-lake-main:{UUID}".encode()) == [("my", "lake-main"), ("my-lake", "main")]
    assert possible_branches(f"lake-a:b:{UUID}".encode()) == [("lake", "a:b")]
    assert possible_branches(f"lake:{UUID}".encode()) == []
    assert possible_branches(f"l\u00e4ke-main:{UUID}".encode()) == []
