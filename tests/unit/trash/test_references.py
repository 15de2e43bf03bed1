"""What records name, and which records end the run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.trash.look import References, read_references
from tests.support.kv_world import START, World


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
    """Its tokens would be guarded under a name that nobody writes."""
    lake, _ = world.repository("lake")
    record = world.kv.get(lake, b"branches/main")
    assert record is not None
    world.kv.set(lake, b"branches/side", record)
    with pytest.raises(FormatError):
        references_of(world)
