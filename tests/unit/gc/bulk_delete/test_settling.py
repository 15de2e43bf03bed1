"""An upload in parts may look old when it appears, and be staged after the re-check: its object is kept at first."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.gc.bulk_delete.settling import Appeared, Settling, look_at_settling
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.gc.steps import bulk_delete
from dredge.gc.subtract.classify import CANDIDATES
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tries import StepTry
from dredge.storage import open_writer
from tests.support import memory_store as memory
from tests.support.gc import World, busy_world, make_world, stage_again
from tests.support.gc import candidates as candidates_of
from tests.unit.gc.bulk_delete.test_sweep import candidates, sweep

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
IN_PARTS = b"in parts"
ADDRESS = "data/slice/in-parts"
PATH = "the same bytes"
NAMES = pa.schema([("address", pa.string()), ("etag", pa.string())])


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


def test_trap_06_the_same_bytes_uploaded_in_parts_that_are_staged_after_branches_were_asked_stay(
    world: World,
) -> None:
    """The server does not show them as staged, so the re-check does not see them, however long the run takes."""
    committed_too(world)
    context = world.plan()
    world.mark(context)
    world.age(minutes=40)
    # After the last questions, and before the first request to delete.
    with world.during("repositories", lambda: stage_again(world, ADDRESS, PATH, size_bytes=len(IN_PARTS))):
        bulk_delete(context, world.runner)
    assert ADDRESS in world.data()
    assert world.lake.read(PATH) == IN_PARTS
    assert candidates_of(context) == {ADDRESS}


def test_the_same_bytes_uploaded_in_parts_that_nobody_stages_go_in_the_next_run(world: World) -> None:
    committed_too(world)
    world.collect()
    assert ADDRESS in world.data()
    world.age(minutes=10)
    context = world.plan()
    world.mark(context)
    world.age(minutes=40)
    bulk_delete(context, world.runner)
    assert ADDRESS in world.data(), "the run before knew it for ten minutes only when branches were asked"
    release_lease(context)
    world.collect()
    assert ADDRESS not in world.data()


def committed_too(world: World) -> None:
    """Commit an entry that is equal to the one that the upload in parts is going to get."""
    stage_again(world, world.orphan("data/slice/first", IN_PARTS.upper()), PATH, size_bytes=len(IN_PARTS))
    world.lake.commit()
    world.age(days=2)


@pytest.fixture
def swept() -> tuple[World, Run, list[str]]:
    """A marked run, and orphans that it might delete."""
    world, _, gone = busy_world()
    run = world.plan()
    world.mark(run)
    return world, run, sorted(gone)


def known(run: Run, *rows: tuple[str, str], **more: Any) -> Settling:
    """What a sweep knows when the run before carried over some objects, by name and ETag."""
    carried = pa.table({"address": [name for name, _ in rows], "etag": [etag for _, etag in rows]})
    part = run.folder.write_table("recheck", 0, carried.cast(NAMES), "carried")
    facts = {"known": "the run before", "known_when_asked": "the run before", **more}
    return Settling(before_uri=run.folder.uri, before=[part], **facts)


def test_sweep_keeps_what_may_have_come_in_parts_and_is_not_known_yet(
    swept: tuple[World, Run, list[str]],
) -> None:
    world, run, (old, new, plain, odd, other, *_) = swept
    in_parts, azure = f"{MD5}-12", "0x8DA"
    settling = known(run, (old, in_parts))
    assert sweep(run, candidates(run, old, new, etag=in_parts), settling)
    assert sweep(run, candidates(run, odd, etag=azure), known(run, (old, in_parts), opaque=True))
    assert sweep(run, candidates(run, plain, etag=MD5), known(run, opaque=True))
    assert sweep(run, candidates(run, other, etag=azure), settling)
    assert {new, odd} <= world.data()
    assert world.data().isdisjoint({old, plain, other})


def test_what_the_run_before_knew_goes_also_beside_what_did_not_come_in_parts(
    swept: tuple[World, Run, list[str]],
) -> None:
    world, run, (old, plain, *_) = swept
    rows = run.folder.read_part(candidates(run, old, plain, etag=f"{MD5}-12"))
    etags = pa.array([f"{MD5}-12", MD5], rows.schema.field("etag").type)
    mixed = rows.set_column(CANDIDATES.names.index("etag"), rows.schema.field("etag"), etags)
    part = run.folder.write_table("subtract", 97, mixed)
    assert sweep(run, part, known(run, (old, f"{MD5}-12")))
    assert world.data().isdisjoint({old, plain})


def test_an_object_that_took_the_place_of_a_known_one_is_not_known(
    swept: tuple[World, Run, list[str]],
) -> None:
    world, run, (name, *_) = swept
    assert sweep(run, candidates(run, name, etag=f"{MD5}-12"), known(run, (name, f"{MD5}-11")))
    assert name in world.data()


def test_another_object_with_the_hash_of_a_known_one_is_not_known(
    swept: tuple[World, Run, list[str]],
) -> None:
    world, run, (name, other, *_) = swept
    etag = f"{MD5}-12"
    rows = run.folder.read_part(candidates(run, name, other, etag=etag))
    hashes = pa.array(hash64(pa.array([name, name])))
    forged = rows.set_column(CANDIDATES.names.index("hash"), "hash", hashes)
    assert sweep(run, run.folder.write_table("subtract", 98, forged), known(run, (name, etag)))
    assert name not in world.data()
    assert other in world.data()


def test_what_the_run_before_carried_over_is_read_for_objects_in_parts_only(
    swept: tuple[World, Run, list[str]],
) -> None:
    world, run, (name, other, *_) = swept
    gone = Settling(known="the run before", before_uri="memory://nowhere", before=[PartInfo("x", 1, 1, "x")])
    assert sweep(run, candidates(run, name, etag=MD5), gone)
    assert name not in world.data()
    with pytest.raises(FormatError, match="is gone"):
        sweep(run, candidates(run, other, etag=f"{MD5}-2"), gone)
    assert other in world.data()


SETTLES, SKEW, MOMENT = timedelta(minutes=20), timedelta(minutes=5), timedelta(microseconds=1)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def looked(
    complete: datetime, asked: datetime, settles: timedelta = SETTLES, namespace: str = "memory://lake"
) -> Settling:
    """What a sweep without a run before it finds now, by when candidates were complete and branches asked."""
    safety = SimpleNamespace(
        multipart_settle_seconds=settles.total_seconds(), clock_skew_seconds_max=SKEW.total_seconds()
    )
    plan = SimpleNamespace(state=None, namespace=namespace, config=SimpleNamespace(safety=safety))
    run: Any = SimpleNamespace(plan=plan, store_now=lambda: NOW)
    inputs = {
        "subtract": StepSummary("subtract", "r", "success", complete - SETTLES, complete),
        "check_limits": StepSummary("check_limits", "r", "success", asked, asked + SETTLES),
    }
    return look_at_settling(run, StepRecord(inputs, StepTry(open_writer("memory://settling"), "s", 1)))


def test_candidates_settle_to_the_moment_by_clocks_that_may_differ() -> None:
    complete = NOW - SETTLES - SKEW
    assert not looked(complete, NOW + SKEW).keeps_something
    late = looked(complete + MOMENT, NOW + 2 * SKEW)
    assert (late.known, late.known_when_asked) == ("nobody", "this run")
    early = looked(complete, NOW + SKEW - MOMENT)
    assert (early.known, early.known_when_asked) == ("this run", "nobody")
    assert late.keeps_something
    assert early.keeps_something
    assert not looked(NOW, NOW, timedelta(0)).keeps_something


@pytest.mark.parametrize(
    ("scheme", "opaque"), [("s3", True), ("s3a", True), ("gs", False), ("memory", False)]
)
def test_only_on_s3_an_etag_may_hide_that_an_object_was_uploaded_in_parts(scheme: str, opaque: bool) -> None:
    assert looked(NOW, NOW, namespace=f"{scheme}://lake").opaque is opaque


@pytest.mark.parametrize("opaque", [True, False])
@pytest.mark.parametrize(
    ("known", "when_asked", "expected"),
    [
        ("this run", "this run", ""),
        ("nobody", "nobody", "ps"),
        ("nobody", "this run", "p"),
        ("this run", "nobody", "s"),
    ],
)
def test_what_was_uploaded_in_parts_is_told_by_its_etag_and_by_whom_it_was_known(
    known: Any, when_asked: Any, expected: str, opaque: bool
) -> None:
    """`p` and `s` were uploaded in parts, and branches were asked about `s`; `o` has an ETag that says nothing."""
    rows = pa.table(
        {
            "address": ["p", "s", "m", "o", "n"],
            "etag": pa.array([f"{MD5}-2", f"{MD5}-12", MD5, "opaque", None], pa.string()),
            "hold": pa.array([None, "same_size", None, None, None], pa.string()),
        }
    )
    settling = Settling(known=known, known_when_asked=when_asked, opaque=opaque)
    folder = RunFolder(open_writer("memory://settling"), "r")
    found = Appeared(settling, folder, []).among(rows).to_pylist()
    hidden = "on" if opaque and known == "nobody" else ""
    assert {name for name, kept in zip("psmon", found, strict=True) if kept} == {*expected, *hidden}
