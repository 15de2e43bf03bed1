"""A hold for an equal size is lifted only by proof: a differing ETag proves nothing."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.gc.check_limits.holds import NO_PATH
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.lakefs import ObjectStats
from dredge.lakefs.files import messages
from dredge.runs.run import release_lease
from lakefs_embedded.committed.entries import Entry
from tests.support import memory_store as memory
from tests.support.gc import CatalogClient, World, make_world
from tests.support.identical import held, shown
from tests.support.lakes import make_lake
from tests.support.memory_store import memory_store

pytestmark = pytest.mark.usefixtures("without_canaries")


NO_MD5 = "0123456789abcdef0123456789abcdef"
"""What an encrypted bucket gives as ETag: 32 hex digits that are no MD5 of anything."""


def linked(world: World, path: str, content: bytes, checksum: str) -> str:
    """Upload to an address that the server handed out, and link it with a claimed checksum."""
    catalog, name = world.lake.catalog, world.lake.repository
    full = catalog.addresses.get_physical_address(name, "main", path)
    address = world.orphan(full.removeprefix(world.lake.namespace + "/"), content)
    catalog.addresses.link_physical_address(
        name, "main", path, physical_address=full, checksum=checksum, size_bytes=len(content)
    )
    return address


def imported(world: World, path: str, content: bytes, checksum: str) -> str:
    """Stage an object that is in the store already, with a claimed checksum."""
    address = world.orphan("data/imported/object", content)
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "main",
        path,
        physical_address=f"{world.lake.namespace}/{address}",
        checksum=checksum,
        size_bytes=len(content),
    )
    return address


@pytest.mark.parametrize("enter", [linked, imported])
def test_a_second_copy_of_an_entry_with_a_claimed_checksum_stays(enter) -> None:  # type: ignore[no-untyped-def]
    """The copy keeps the checksum, so the head's is no MD5 of its bytes and the second copy is no change."""
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    first = enter(world, "source", b"12345678", NO_MD5)
    copied = world.lake.address(catalog.objects.copy_object(name, "main", "x", "source"))
    world.lake.commit()
    again = world.lake.address(catalog.objects.copy_object(name, "main", "x", "source"))
    assert world.served()["x"] == again
    world.collect_after(days=2)
    assert {first, copied, again} <= world.data()
    world.assert_readable()


def encrypts_from_now_on(world: World, stand_in: Any) -> None:
    """ETags of new objects are 32 hex digits that are no MD5s; those of old objects stay."""
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    old = [data for data, _ in store.objects.values()]
    known = set(map(id, old))

    def etag(_: object, data: bytes) -> str:
        assert old  # keeps them, and so their ids
        return hashlib.md5(data if id(data) in known else b"kms" + data).hexdigest()

    stand_in(memory.etag_of, etag)


@pytest.mark.parametrize("sizes", [1, 30])
def test_equal_bytes_uploaded_again_after_a_bucket_began_to_encrypt_stay(stand_in: Any, sizes: int) -> None:
    """lakeFS computes its checksums from the bytes, so the second upload is no change; the store's ETag of it
    is another one."""
    world = make_world()
    contents = {f"a{number:02d}": b"x" * (number % sizes) + b"%03d" % number for number in range(30)}
    for path, content in contents.items():
        world.upload(path, content)
    world.lake.commit()
    before = world.data()
    encrypts_from_now_on(world, stand_in)
    twins = {world.upload(path, bytes(bytearray(content))) for path, content in contents.items()}
    assert set(world.served().values()) == twins
    assert len({world.lake.objects.stat(address).etag for address in before | twins}) == 60
    world.collect_after(days=2)
    assert before | twins <= world.data()
    world.assert_readable()


def test_a_second_upload_over_an_entry_with_a_full_address_stays() -> None:
    """Its object lies outside the namespace, so there is nothing to compare a candidate with but the size."""
    world = make_world()
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "main",
        "a",
        physical_address="memory://elsewhere/data/object",
        checksum=hashlib.md5(b"same").hexdigest(),
        size_bytes=4,
        content_type="application/octet-stream",
    )
    world.lake.commit()
    again = world.upload("a", b"same")
    assert world.served()["a"] == again
    world.age(days=2)
    context = world.collected()
    assert again in world.data()
    assert shown(context) == [again]


def test_a_copy_that_was_hidden_by_a_head_of_the_time_of_the_scan_stays() -> None:
    """Every night the branch is reset to another commit while the run reads, and back before it deletes. Only the head
    that it had when staging was read has an entry like the copy: no grace helps."""
    world = make_world(unsafe_grace_seconds=None, grace_hours=20, rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("a", b"other!")
    other = world.lake.commit("other")
    world.age(days=3)
    world.upload("a", b"same")
    same = world.lake.commit("same")
    again = world.upload("a", b"same")
    assert world.served()["a"] == again
    world.age(days=3)
    for _ in range(2):
        context = world.plan()
        for step in (slice_listing, mark_uncommitted):
            step(context, world.runner)
        catalog.branches.hard_reset(name, "main", other.id)
        for step in (list_committed, subtract, check_limits):
            step(context, world.runner)
        assert shown(context) == [again], "the guards know, whatever the sweep finds out"
        catalog.branches.hard_reset(name, "main", same.id)
        assert world.served()["a"] == again
        bulk_delete(context, world.runner)
        release_lease(context)
        assert again in world.data()
        world.age(hours=20)
    world.assert_readable()


def test_a_path_that_is_not_utf8_holds_what_is_as_long_as_its_object() -> None:
    """Asked under a replaced name, the server says that there is no such path."""
    world = make_world()
    world.commit("a", b"same")
    token = world.lake.tokens()[0].encode()
    ((key, record),) = [(b"\xff\xfe", staged(world, b"\xff\xfe", b"abcdef"))]
    world.lake.kv.set(token, key, record)
    world.lake.commit()
    again = world.orphan("data/slice/again", b"abcdef")
    token = world.lake.tokens()[0].encode()
    world.lake.kv.set(token, b"\xff\xfe", staged(world, b"\xff\xfe", b"abcdef", again))
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.collected()
    assert again in world.data()
    assert orphan not in world.data()
    assert held(context) == {NO_PATH: 1}


def staged(world: World, key: bytes, content: bytes, address: str = "") -> bytes:
    """The record of a staged entry, as a client of the S3 gateway may have made it."""
    address = address or world.orphan(f"data/slice/{content.decode()}", content)
    entry = Entry(address, size=len(content), etag=hashlib.md5(content).hexdigest())
    value = messages.StagedEntryData(key=key, identity=entry.identity(), data=entry.encode())
    return messages.encode(value)


def test_sweep_keeps_a_second_upload_that_a_server_on_a_local_folder_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A real one takes the namespace `local://lake`, and its answers have whole paths."""
    monkeypatch.setenv("DREDGE_LOCAL_BASE", str(tmp_path))
    lake = make_lake(namespace="local://lake")
    world = World(lake, CatalogClient(lake.catalog))
    honest = world.client.stat

    def stat(repository: str, ref: str, path: str) -> ObjectStats:
        found = honest(repository, ref, path)
        return replace(found, address=found.address.replace("local://", f"local://{tmp_path}/"))

    world.client.stat = stat  # type: ignore[method-assign]
    now = datetime.now(UTC)
    lake.clock.now = now - timedelta(days=2)
    world.upload("a", b"same")
    lake.commit()
    again = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    lake.clock.now = now
    for key in world.data():
        os.utime(tmp_path / "lake" / key, times=(now.timestamp() - 2 * 86400,) * 2)
    world.collect()
    assert again in world.data()
    assert orphan not in world.data()
    world.assert_readable()
