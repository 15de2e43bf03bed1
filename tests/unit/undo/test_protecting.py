"""Nothing is deleted before it can be brought back, where the run says that it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import ConfigError, DredgeError, FormatError, RefusedError, UnavailableError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.gc.steps import Run, run_steps
from dredge.runs.payload import to_json
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectInfo
from dredge.storage.streamed_copy import StreamedCopier
from dredge.undo.protecting import protection
from tests.support.gc import deleting, summary_of
from tests.support.undo import data_bytes, restore, store_of, undo_world


def failing(monkeypatch: pytest.MonkeyPatch, key: str, error: DredgeError) -> None:
    """Let the copy of one object fail."""
    copy = StreamedCopier.copy

    def maybe(self: StreamedCopier, wanted: str, *more: Any, **named: Any) -> ObjectInfo:
        if wanted == key:
            raise error
        return copy(self, wanted, *more, **named)

    monkeypatch.setattr(StreamedCopier, "copy", maybe)


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


@pytest.mark.parametrize(
    "error",
    [
        FormatError("the copy has another size than its source"),
        ConfigError("copying: InvalidObjectState The object is archived"),
        ConfigError("copying: BlobArchived This operation is not permitted on an archived blob."),
    ],
)
def test_an_object_whose_copy_cannot_be_made_stays_until_the_next_run(
    error: DredgeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, kept, gone = undo_world("quarantine")
    one = min(gone)
    failing(monkeypatch, one, error)
    run = world.plan()
    world.run(run)
    assert world.data() == kept | {one}
    groups = BulkDeleteOutput.of(summary_of(run, "bulk_delete")).groups
    assert [(group.outcome, group.objects) for group in groups if group.code == "not_copied"] == [("kept", 1)]
    assert "could not be copied" in str(run.folder.read_json("report.json")["warnings"])
    monkeypatch.undo()
    world.collect(mode="optimized")
    assert world.data() == kept


@pytest.mark.parametrize(
    "error", [UnavailableError("SlowDown"), ConfigError("copying: AccessDenied no s3:PutObject")]
)
def test_an_object_whose_copy_fails_for_now_stays_and_is_tried_again(
    error: DredgeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, kept, gone = undo_world("quarantine")
    one = min(gone)
    failing(monkeypatch, one, error)
    run = world.plan()
    with pytest.raises(DredgeError, match="could not be deleted"):
        world.run(run)
    assert world.data() == kept | {one}
    monkeypatch.undo()
    run_steps(Run.open(run.plan.run_uri, None, world.client, world.lake.clock), LocalRunner())
    assert world.data() == kept


def test_an_object_that_is_not_as_it_was_listed_stays() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.mark(run)
    one = min(gone)
    world.orphan(one, b"something else by now")
    bulk_delete(run, world.runner)
    assert world.data() == kept | {one}


def test_a_bucket_that_keeps_no_versions_any_more_stops_the_sweep() -> None:
    world, kept, gone = undo_world("versions")
    run = world.plan()
    world.mark(run)
    store_of(world).older = None
    with pytest.raises(RefusedError, match="Nothing more was deleted"):
        bulk_delete(run, world.runner)
    assert world.data() == kept | gone


def test_without_undo_nothing_comes_before_the_deletion() -> None:
    world, kept, _ = undo_world("off")
    run = world.plan()
    assert protection(run.plan.undo.way, run.plan.namespace, run.plan.run_uri) is None
    world.run(run)
    assert world.data() == kept
    assert not [key for key in world.lake.keys("") if "/quarantine/" in key]


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


def test_what_an_earlier_try_deleted_and_did_not_write_down_counts_as_deleted() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.mark(run)
    one, other = sorted(gone)[:2]
    store = store_of(world)
    for key, has_copy in ((one, True), (other, False)):
        name = next(name for name in store.objects if name.endswith(key))
        if has_copy:
            run.folder.writer.put(f"quarantine/{key}", store.objects[name][0])
        store.remove(name)
    bulk_delete(run, world.runner)
    counts = summary_of(run, "bulk_delete").counts
    assert counts["deleted_objects"] == len(gone) - 1
    assert counts["missing_objects"] == 1
    assert world.data() == kept


def test_versions_are_not_counted_on_where_the_store_has_none() -> None:
    world, _, _ = undo_world("off")
    with pytest.raises(ConfigError, match="keeps no versions"):
        world.plan(undo="versions")
    run = world.plan(undo="auto")
    assert (run.plan.undo.way, run.plan.undo.why) == ("off", "the store keeps no versions")
    assert to_json(replace(run.plan, undo=run.plan.undo))["undo"]["way"] == "off"


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
