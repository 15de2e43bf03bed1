"""What each range is to a run, and where what it names is counted: once, or taken away once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from dredge.gc.index.decoding import RangeHashes
from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.index.store import CommittedIndex, write_part
from dredge.gc.list_committed import roles
from dredge.gc.list_committed.roles import Roles, RoleTable
from dredge.runs.folder import RunFolder
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

NAMESPACE = "memory://lake"


def facts(head: bool = False, count: int = 1) -> RangeFacts:
    return RangeFacts(count, b"a", b"z", head)


THEN: Ranges = {
    "stays": facts(),
    "was head": facts(True),
    "becomes head": facts(),
    "head": facts(True),
    "gone": facts(),
}
NOW: Ranges = {
    "stays": facts(),
    "was head": facts(),
    "becomes head": facts(True),
    "head": facts(True),
    "new": facts(),
    "new head": facts(True),
}
EXPECTED = {
    "stays": roles.COUNTED,
    "was head": roles.COUNTED,
    "becomes head": roles.COUNTED_NEW_HEAD,
    "head": roles.COUNTED,
    "new": roles.ACTIVE,
    "new head": roles.HEAD,
    "gone": roles.DROPPED,
    "history": roles.EXPIRED,
}


def test_a_run_that_builds_on_another_counts_what_is_new_and_takes_away_what_is_gone() -> None:
    found = Roles.since(THEN, NOW)
    assert (found.active.keys(), found.counted.keys()) == ({"new", "new head"}, THEN.keys() - {"gone"})
    assert (found.new_heads, found.dropped) == ({"becomes head"}, {"gone": facts()})
    found.expired = {"history": facts(), "gone": facts()}
    assert {name: found.role(name) for name in EXPECTED} == EXPECTED
    found.dropped_expired = {"gone"}
    assert found.role("gone") == roles.DROPPED_EXPIRED
    assert found.to_read == {name: NOW[name] for name in ("new", "new head", "becomes head")}


def test_each_role_is_for_what_it_says() -> None:
    """Counted twice, garbage stays; taken away twice, or without having been counted, live objects go."""
    assert set(roles.TO_ADD) == {roles.HEAD, roles.ACTIVE}
    assert set(roles.TO_SUBTRACT) == {roles.DROPPED, roles.DROPPED_EXPIRED}
    assert set(roles.IN_HEADS) == {roles.HEAD, roles.COUNTED_NEW_HEAD}
    assert set(roles.TO_EXPLAIN) == {roles.EXPIRED, roles.DROPPED_EXPIRED}


def hashes(name: str) -> RangeHashes:
    return RangeHashes(name, 1, 0, np.array([1], np.uint64), np.array([1], np.uint64))


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    name = f"roles-{uuid.uuid4().hex[:8]}"
    yield RunFolder(open_writer(f"memory://{name}"), "run")
    forget_memory_store(name)


def test_a_range_counts_from_one_place_alone(folder: RunFolder) -> None:
    """Not from another part of the index that has it too, nor from any where it is decoded now or taken away."""
    index = CommittedIndex(folder.writer, NAMESPACE)
    index.add(
        "run",
        [write_part(folder.writer, "first", [hashes(name) for name in ("stays", "new", "gone", "head")])],
    )
    part = index.part_of("stays")
    assert part is not None
    found = Roles.since(THEN, NOW)
    found.expired = {"history": facts()}
    table = found.table(index, {"new"})
    assert table["range_id"].to_pylist() == sorted(EXPECTED)
    written = RoleTable.read(folder, folder.write_table("x", 0, table))
    assert written.roles == EXPECTED
    assert written.parts == dict.fromkeys(EXPECTED, "") | dict.fromkeys(("stays", "head", "gone"), part)

    def counting(name: str) -> list[str]:
        items = [hashes(item) for item in ("stays", "new", "gone", "head", "unknown")]
        return [item.range_id for item in written.counting(name, items)]

    assert counting(part) == ["stays", "head"]
    assert counting("another") == []
    assert [name for name in EXPECTED if written.in_head(name)] == ["becomes head", "new head"]
    assert not written.in_head("unknown")
