"""An upload in parts may look old when it appears, and be staged after the re-check: its object is kept at first."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from dredge.gc.bulk_delete.settling import Settling
from dredge.gc.sets.files import write_hashes
from dredge.gc.sets.hashes import NONE, unite
from dredge.gc.steps import bulk_delete
from dredge.hashing import hash64
from dredge.storage import memory
from tests.support.gc import World, busy_world, make_world, stage_again
from tests.unit.gc.bulk_delete.test_sweep import candidates, sweep

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
IN_PARTS = b"in parts"
ADDRESS = "data/slice/in-parts"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """An object whose upload began two days ago, as S3 shows it, and that ended right now."""

    def etag(data: bytes) -> str:
        plain = hashlib.md5(data, usedforsecurity=False).hexdigest()
        return f"{plain}-2" if data == IN_PARTS else plain

    monkeypatch.setattr(memory, "_etag", etag)
    made = make_world()
    made.upload("keep", b"k")
    made.lake.commit()
    made.orphan(ADDRESS, IN_PARTS)
    made.age(days=2)
    return made


def test_trap_07_an_upload_in_parts_that_is_staged_after_the_re_check_stays(world: World) -> None:
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collect()
    stage_again(world, ADDRESS, size_bytes=len(IN_PARTS))
    assert world.lake.read("again") == IN_PARTS
    assert orphan not in world.data()


@pytest.mark.parametrize("mode", ["clean", "optimized"])
def test_an_upload_in_parts_that_nobody_stages_goes_in_the_next_run(world: World, mode: str) -> None:
    world.collect()
    assert ADDRESS in world.data()
    world.age(minutes=10)
    world.collect(mode=mode)
    assert ADDRESS in world.data(), "the run before knew it for ten minutes only"
    world.age(minutes=30)
    context = world.plan(mode=mode)
    world.run(context)
    assert context.plan.mode == mode
    assert ADDRESS not in world.data()


def test_an_upload_in_parts_goes_at_once_where_a_run_takes_long(world: World) -> None:
    context = world.plan()
    world.mark(context)
    world.age(minutes=21)
    bulk_delete(context, world.runner)
    assert ADDRESS not in world.data()


def test_the_time_of_the_re_check_itself_does_not_count(world: World) -> None:
    context = world.plan()
    world.mark(context)
    with world.during("prepare_uncommitted", lambda: world.age(minutes=30) and None):
        bulk_delete(context, world.runner)
    assert ADDRESS in world.data()


def test_an_upload_in_parts_goes_at_once_where_the_user_says_so(world: World) -> None:
    world.collect(safety={"multipart_settle_seconds": 0})
    assert ADDRESS not in world.data()


def test_a_state_that_cannot_be_read_knows_nothing(world: World) -> None:
    world.collect()
    world.age(hours=1)
    context = world.plan()
    world.mark(context)
    assert context.plan.state is not None
    context.state.put(context.plan.state.name, b"damaged")  # type: ignore[attr-defined]
    bulk_delete(context, world.runner)
    assert ADDRESS in world.data()


def test_sweep_keeps_what_may_have_come_in_parts_and_is_not_known_yet() -> None:
    world, _, gone = busy_world()
    run = world.plan()
    world.mark(run)
    known, unknown, plain, odd, other = sorted(gone)[:5]
    nothing = Settling(known=write_hashes(run.folder, "recheck/none.u64", NONE))
    some = Settling(known=write_hashes(run.folder, "recheck/some.u64", unite([hash64(pa.array([known]))])))
    opaque = Settling(known=nothing.known, opaque=True)
    assert sweep(run, candidates(run, known, unknown, etag=f"{MD5}-12"), some)
    assert sweep(run, candidates(run, odd, etag="0x8DA"), opaque)
    assert sweep(run, candidates(run, plain, etag=MD5), opaque)
    assert sweep(run, candidates(run, other, etag="0x8DA"), nothing)
    assert {unknown, odd} <= world.data()
    assert world.data().isdisjoint({known, plain, other})
