"""Nothing is deleted before it can be brought back, where the run says that it can."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from dredge.errors import ConfigError, DredgeError, RefusedError, UnavailableError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.steps import Run, run_steps
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectInfo
from tests.support.gc import deleting, summary_of
from tests.support.memory_store import MemoryWriter
from tests.support.stand_ins import standing_in
from tests.support.undo import data_bytes, restore, store_of, undo_world


def failing(key: str, error: DredgeError) -> AbstractContextManager[None]:
    def maybe(honest: Any, writer: object, wanted: str, *more: Any, **named: Any) -> ObjectInfo:
        if wanted == key:
            raise error
        found: ObjectInfo = honest(writer, wanted, *more, **named)
        return found

    return standing_in(MemoryWriter.put_stream, maybe)


def test_an_object_is_deleted_only_when_its_copy_is_there() -> None:
    world, kept, gone = undo_world("quarantine")
    before = data_bytes(world)
    run = world.plan()
    world.mark(run)
    root = world.lake.namespace.removeprefix("memory://").partition("/")[2]
    copies = f"{root}/_lakefs/retention/gc/unified/{run.plan.run_id}/quarantine/"

    def look(_number: int, keys: Sequence[str]) -> None:
        objects = store_of(world).objects
        assert {key: objects[copies + key][0] for key in keys} == {key: before[key] for key in keys}

    with deleting(before=look) as requests:
        bulk_delete(run, world.runner)
    assert {key for keys in requests.made for key in keys} == gone
    assert world.data() == kept


def test_an_object_whose_copy_cannot_be_made_stays_until_the_next_run() -> None:
    world, kept, gone = undo_world("quarantine")
    one = min(gone)
    run = world.plan()
    with failing(one, ConfigError("copying: InvalidObjectState The object is archived")):
        world.run(run)
    assert world.data() == kept | {one}
    groups = BulkDeleteOutput.of(summary_of(run, "bulk_delete")).groups
    assert [(group.outcome, group.objects) for group in groups if group.code == "not_copied"] == [("kept", 1)]
    world.collect(mode="optimized")
    assert world.data() == kept


def test_an_object_whose_copy_fails_for_now_stays_and_is_tried_again() -> None:
    world, kept, gone = undo_world("quarantine")
    one = min(gone)
    run = world.plan()
    with failing(one, UnavailableError("SlowDown")), pytest.raises(UnavailableError):
        world.run(run)
    assert world.data() == kept | {one}
    run_steps(Run.open(run.plan.run_uri, None, world.client, world.lake.clock), LocalRunner())
    assert world.data() == kept


def test_a_bucket_that_keeps_no_versions_any_more_stops_the_sweep() -> None:
    world, kept, gone = undo_world("versions")
    run = world.plan()
    world.mark(run)
    store_of(world).older = None
    with pytest.raises(RefusedError):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


def test_a_copy_of_an_earlier_try_is_made_again_before_its_object_goes() -> None:
    """What lies there may be anything: only this try's own copy counts."""
    world, _, gone = undo_world("quarantine")
    before = data_bytes(world)
    run = world.plan()
    world.mark(run)
    for key in gone:
        run.folder.writer.put(f"quarantine/{key}", b"half a copy")
    bulk_delete(run, world.runner)
    run.lease.release(run.plan.lease)
    restore(world, run, all=True)
    assert data_bytes(world) == before


def test_a_key_that_a_store_may_refuse_to_put_back_stays() -> None:
    """MinIO takes the copy of a key that ends with a slash, and refuses the upload in parts that a restore makes."""
    world, kept, gone = undo_world("quarantine")
    trail = world.orphan("data/slice0/trail/", b"trail")
    world.age(days=2)
    run = world.plan()
    world.run(run)
    assert world.data() == kept | {trail}
    groups = {group.code: group for group in BulkDeleteOutput.of(summary_of(run, "bulk_delete")).groups}
    assert (groups["not_restorable"].outcome, groups["not_restorable"].objects) == ("kept", 1)
    restore(world, run, all=True)
    assert world.data() == kept | gone | {trail}
