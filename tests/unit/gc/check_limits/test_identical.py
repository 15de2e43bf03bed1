"""A hold for an equal size is lifted only by proof: a differing ETag proves nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.check_limits import codes, places, questions
from dredge.gc.run import Run
from dredge.gc.save_report.report import save_report
from dredge.gc.steps import (
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.gc.subtract import reasons
from dredge.gc.subtract.holds import UNREADABLE
from dredge.graveler import messages
from dredge.graveler.committed.entries import Entry
from dredge.hashing import hash64
from dredge.lakefs import ObjectStats
from dredge.storage import memory, memory_store, open_deleter
from tests.support.gc import CatalogClient, World, make_world, stage_again, summary_of
from tests.support.lakes import make_lake


@pytest.fixture(autouse=True)
def without_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a lake as small as these, they would notice each loss; in a large one they are a few of many."""
    monkeypatch.setattr("dredge.gc.check_limits.canaries.sample", lambda *_: [])


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
    world.age(days=2)
    world.collect()
    assert {first, copied, again} <= world.data()
    world.assert_readable()


def encrypts_from_now_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """ETags of new objects are 32 hex digits that are no MD5s; those of old objects stay."""
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    old = [data for data, _ in store.objects.values()]
    known = set(map(id, old))

    def etag(data: bytes) -> str:
        assert old  # keeps them, and so their ids
        return hashlib.md5(data if id(data) in known else b"kms" + data).hexdigest()

    monkeypatch.setattr(memory, "_etag", etag)


@pytest.mark.parametrize("sizes", [1, 30])
def test_equal_bytes_uploaded_again_after_a_bucket_began_to_encrypt_stay(
    monkeypatch: pytest.MonkeyPatch, sizes: int
) -> None:
    """lakeFS computes its checksums from the bytes, so the second upload is no change; the store's ETag of it
    is another one."""
    world = make_world()
    contents = {f"a{number:02d}": b"x" * (number % sizes) + b"%03d" % number for number in range(30)}
    for path, content in contents.items():
        world.upload(path, content)
    world.lake.commit()
    before = world.data()
    encrypts_from_now_on(world, monkeypatch)
    twins = {world.upload(path, bytes(bytearray(content))) for path, content in contents.items()}
    assert set(world.served().values()) == twins
    assert len({world.lake.objects.stat(address).etag for address in before | twins}) == 60
    world.age(days=2)
    world.collect()
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
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert shown(context) == [again]


def shown(context: Run) -> list[str]:
    return [item["address"] for item in context.folder.read_json("guard.json")["identical_live"]]


def held(context: Run) -> dict[str, int]:
    """Objects that the guards held, by code."""
    return {item["code"]: item["objects"] for item in context.folder.read_json("guard.json")["held"]}


def test_an_object_as_long_as_no_object_in_any_head_needs_no_question() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"longer")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 0


def test_every_path_of_the_size_is_asked_on_every_branch() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.upload("b", b"size")
    world.lake.commit()
    for name in ("one", "two"):
        world.lake.catalog.branches.create_branch(world.lake.repository, name, "main")
    again = world.upload("b", b"size", "two")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 6


def test_a_copy_that_was_hidden_by_a_head_of_the_time_of_the_scan_stays() -> None:
    """The branch is reset to another commit while the run reads, and back before it deletes. Only the head that
    it had when staging was read has an entry like the copy."""
    world = make_world()
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("a", b"other!")
    other = world.lake.commit("other")
    world.age(days=3)
    world.upload("a", b"same")
    same = world.lake.commit("same")
    again = world.upload("a", b"same")
    assert world.served()["a"] == again
    world.age(days=3)
    context = world.plan()
    for step in (slice_listing, mark_uncommitted):
        step(context, world.runner)
    catalog.branches.hard_reset(name, "main", other.id)
    for step in (list_committed, subtract, check_limits):
        step(context, world.runner)
    catalog.branches.hard_reset(name, "main", same.id)
    assert world.served()["a"] == again
    bulk_delete(context, world.runner)
    assert again in world.data()
    world.assert_readable()


def many(world: World, count: int, content: bytes = b"same") -> None:
    """Committed objects of one size, close together."""
    for number in range(count):
        world.upload(f"many/{number:05d}", content)
    world.lake.commit()


def test_many_paths_are_asked_by_pages_of_the_listing() -> None:
    world = make_world()
    many(world, 40)
    twins = {world.upload(f"many/{number:05d}", b"same") for number in (0, 7, 39)}
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twins <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 1
    assert sorted(shown(context)) == sorted(twins)


def short_pages(world: World, entries: int) -> None:
    """A server whose pages stop early, as when much lies between."""
    honest = world.client.objects_page

    def page(
        repository: str, ref: str, after: str = "", amount: int = 1000
    ) -> tuple[list[ObjectStats], bool]:
        return honest(repository, ref, after, min(amount, entries))

    world.client.objects_page = page  # type: ignore[method-assign]


@pytest.mark.parametrize("entries", [1, 7])
def test_a_page_that_stops_short_is_gone_on_with(entries: int) -> None:
    world = make_world()
    many(world, 40)
    twins = {world.upload(f"many/{number:05d}", b"same") for number in (0, 7, 39)}
    for number in range(30):  # not in the head, so nobody counted on them
        world.upload(f"many/00020-{number:02d}", b"staged meanwhile")
    orphan = world.orphan("data/slice/orphan", b"else")
    short_pages(world, entries)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twins <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] >= 40 // entries


def test_requests_never_exceed_their_bound_and_what_is_left_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAGE", 40)
    world = make_world(safety={"identical_requests_max": 13})
    many(world, 40)
    world.upload("sole", b"a length of its own")
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    cleared = world.orphan("data/slice/cleared", b"A LENGTH OF ITS OWN")
    short_pages(world, 4)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert orphan in world.data()
    assert cleared not in world.data()
    assert summary_of(context, "check_limits").counts["questions"] == 2
    assert held(context) == {codes.TOO_MANY: 1}
    assert any("kv_conn_id" in text for text in summary_of(context, "check_limits").warnings)


def odd_answer(_repository: str, _ref: str, *_: object) -> None:
    raise FormatError("the server's answer (200) is not JSON: '<html>'")


def no_answer(_repository: str, _ref: str, *_: object) -> None:
    raise UnavailableError("lakeFS answered 503 'slow down'")


def answer_of_another(_repository: str, _ref: str, *_: object) -> object:
    raise KeyError("path")


@pytest.mark.parametrize("answer", [odd_answer, no_answer, answer_of_another])
@pytest.mark.parametrize("count", [1, 40])
def test_without_an_answer_objects_of_that_size_are_held_and_the_run_goes_on(
    answer: Callable[..., Any], count: int
) -> None:
    world = make_world()
    many(world, count)
    again = world.upload("many/00000", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    other = world.orphan("data/slice/other", b"of another length")
    world.client.stat = world.client.objects_page = answer  # type: ignore[assignment, method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert {again, orphan} <= world.data()
    assert other not in world.data()
    assert held(context) == {codes.NO_ANSWER: 2}
    kept = {group["code"] for group in summary_of(context, "bulk_delete").details["groups"] if group["code"]}
    assert kept == {codes.NO_ANSWER}


def test_a_server_that_stays_away_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    for number in range(100):
        world.upload(f"{number:03d}", b"same")
        for filler in range(3):
            world.upload(f"{number:03d}-{filler}", b"x" * (5 + number * 3 + filler))
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    monkeypatch.setattr(questions, "PAGE", 4)
    asked: list[str] = []

    def stat(_repository: str, _ref: str, path: str) -> None:
        asked.append(path)
        raise UnavailableError("connection refused")

    world.client.stat = stat  # type: ignore[assignment, method-assign]
    world.age(days=2)
    world.collect()
    assert orphan in world.data()
    assert len(asked) < 40


def test_an_answer_about_another_path_is_none() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    again = world.upload("a", b"same")
    world.client.stat = lambda *_: ObjectStats("b", f"{world.lake.namespace}/data/x", "c", 4)  # type: ignore[method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_page_that_does_not_begin_where_it_should_is_no_answer() -> None:
    """Something in between dropped the query: the first page of the branch, whatever was asked for."""
    world = make_world()
    for number in range(20):
        world.upload(f"before/{number:02d}", b"%d" % number)
    many(world, 40)
    again = world.upload("many/00039", b"same")
    honest = world.client.objects_page
    world.client.objects_page = (  # type: ignore[method-assign]
        lambda repository, ref, after="", amount=1000: (honest(repository, ref, "", amount)[0][:10], False)
    )
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_branch_that_is_gone_serves_nothing() -> None:
    world = make_world()
    many(world, 40)
    world.lake.catalog.branches.create_branch(world.lake.repository, "gone", "main")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract):
        step(context, world.runner)
    world.lake.catalog.branches.delete_branch(world.lake.repository, "gone")
    check_limits(context, world.runner)
    bulk_delete(context, world.runner)
    assert orphan not in world.data()


def test_a_path_that_is_not_utf8_holds_what_is_as_long_as_its_object() -> None:
    """Asked under a replaced name, the server says that there is no such path."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    token = world.lake.tokens()[0].encode()
    ((key, record),) = [(b"\xff\xfe", staged(world, b"\xff\xfe", b"abcdef"))]
    world.lake.kv.set(token, key, record)
    world.lake.commit()
    again = world.orphan("data/slice/again", b"abcdef")
    token = world.lake.tokens()[0].encode()
    world.lake.kv.set(token, b"\xff\xfe", staged(world, b"\xff\xfe", b"abcdef", again))
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert orphan not in world.data()
    assert held(context) == {codes.NO_PATH: 1}


def staged(world: World, key: bytes, content: bytes, address: str = "") -> bytes:
    """The record of a staged entry, as a client of the S3 gateway may have made it."""
    address = address or world.orphan(f"data/slice/{content.decode()}", content)
    entry = Entry(address, size=len(content), etag=hashlib.md5(content).hexdigest())
    value = messages.StagedEntryData(key=key, identity=entry.identity(), data=entry.encode())
    return messages.encode(value)


def test_a_second_upload_into_a_bucket_that_always_encrypted_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    encrypts_from_now_on(world, monkeypatch)
    first = world.upload("_SUCCESS", b"")
    world.lake.commit()
    second = world.upload("_SUCCESS", b"")
    world.age(days=2)
    world.collect()
    assert {first, second} <= world.data()
    world.assert_readable()


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, address: str, error: Exception) -> Iterator[None]:
    """A store that denies everything but listing of one object: access rules, an archive, a customer's key."""
    with monkeypatch.context() as patch:
        for name in ("stat", "get", "open_read", "get_range"):
            honest = getattr(memory.MemoryReader, name)

            def denied(self: Any, key: str, *more: Any, honest: Any = honest) -> Any:
                if key == address:
                    raise error
                return honest(self, key, *more)

            patch.setattr(memory.MemoryReader, name, denied)
        yield


def test_an_object_that_cannot_be_read_does_not_end_a_clean_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read for its MD5, because its ETag is that of a multipart upload."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan", b"else")
    monkeypatch.setattr(memory, "_etag", lambda data: hashlib.md5(data).hexdigest() + "-2")
    world.age(days=2)
    with refusing(monkeypatch, orphan, ConfigError("reading it: AccessDenied")):
        world.collect()
    assert orphan not in world.data()


@pytest.mark.parametrize("error", [ConfigError("AccessDenied"), UnavailableError("400 Bad Request")])
def test_an_object_that_the_store_will_not_describe_is_held_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """An optimized run asks for what it knows from the run before."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    secret, other = world.upload("b", b"staged"), world.upload("c", b"staged, too")
    world.age(days=10)
    world.collect(mode="clean")
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.age(days=2)
    for _ in range(2):
        with refusing(monkeypatch, secret, error):
            context = world.plan(mode="optimized")
            world.run(context)
        assert context.plan.mode == "optimized"
        assert secret in world.data()
        assert other not in world.data()
        assert held(context) == {UNREADABLE: 1}
        (warning,) = summary_of(context, "subtract").warnings
        assert "refused" in warning
        assert str(error) in warning
        ledger = summary_of(context, "bulk_delete")
        assert [group["code"] for group in ledger.details["groups"] if group["outcome"] == "kept"] == [
            "unreadable"
        ]
        report = context.folder.read_json("report.json")
        assert [item["examples"] for item in report["held"]] == [[{"address": secret, "size": 0}]]
        world.age(hours=1)
    world.collect(mode="optimized")
    assert secret not in world.data()


def test_a_committed_index_that_is_lost_is_no_reason_to_stop() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    world.age(days=10)
    world.collect(mode="clean")
    again = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    open_deleter(world.lake.namespace).delete(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    context = world.plan(mode="optimized")
    world.run(context)
    assert context.plan.mode == "optimized"
    assert again in world.data()
    assert orphan not in world.data()


@pytest.mark.parametrize(
    "limit", [{"max_delete_objects": 20}, {"max_delete_bytes": 20}, {"max_delete_percent": 1}]
)
def test_an_exceeded_limit_shows_what_would_go_by_reason_with_ten_examples_each(
    limit: dict[str, int],
) -> None:
    world = make_world(**limit)
    world.upload("a", b"same")
    world.lake.commit()
    plain = {world.orphan(f"data/slice/{number:02d}", b"orphan") for number in range(15)}
    asked = {world.orphan(f"data/slice/asked{number:02d}", b"else") for number in range(3)}
    catalog, name = world.lake.catalog, world.lake.repository
    handed = {
        world.orphan(
            catalog.addresses.get_physical_address(name, "main", "x").removeprefix(
                world.lake.namespace + "/"
            ),
            b"x" * 9,
        )
        for _ in range(12)
    }
    served = world.upload("a", b"same")
    world.age(days=2)
    context = world.plan()
    with pytest.raises(RefusedError):
        world.run(context)
    assert plain | asked | handed | {served} <= world.data()
    save_report(context)
    report = context.folder.read_json("report.json")
    found = {item["reason"]: item for item in report["over_limit"]}
    assert {reason: (item["objects"], item["bytes"]) for reason, item in found.items()} == {
        reasons.UNREFERENCED: (18, 15 * 6 + 3 * 4),
        reasons.NEVER_LINKED: (12, 12 * 9),
    }
    for reason, everything in ((reasons.UNREFERENCED, plain | asked), (reasons.NEVER_LINKED, handed)):
        examples = {example["address"] for example in found[reason]["examples"]}
        assert len(examples) == 10
        assert examples <= everything
    (kept,) = report["held"]
    assert (kept["code"], kept["objects"], kept["bytes"]) == (codes.SERVED, 1, 4)
    assert kept["examples"] == [{"address": served, "size": 4, "branch": "main", "path": "a"}]
    page = context.folder.writer.get("report.html").decode()
    assert "Held back" in page
    assert "More than a limit allows" in page
    assert served in page


def test_the_report_shows_ten_examples_of_many_that_are_held() -> None:
    world = make_world(safety={"identical_requests_max": 0}, tuning={"candidate_rows": 4})
    world.upload("a", b"same")
    world.lake.commit()
    orphans = {world.orphan(f"data/slice/{number:02d}", b"else") for number in range(25)}
    world.age(days=2)
    context = world.plan(dry_run=True)
    world.run(context)
    report = context.folder.read_json("report.json")
    (kept,) = report["held"]
    assert (kept["code"], kept["objects"], kept["bytes"]) == (codes.TOO_MANY, 25, 100)
    assert len({example["address"] for example in kept["examples"]} & orphans) == 10
    assert report["over_limit"] == []
    assert [row["objects"] for row in report["rows"] if row["kind"] == "of these"] == [25]


@pytest.mark.parametrize("objects_max", [0, 2])
def test_more_objects_than_may_be_asked_about_are_held(objects_max: int) -> None:
    world = make_world(safety={"identical_suspects_max": objects_max})
    world.upload("a", b"same")
    world.upload("b", b"longer")
    world.upload("c", b"LONGER")
    world.lake.commit()
    few = {world.orphan(f"data/slice/{number}", b"else") for number in range(2)}
    many = {world.orphan(f"data/slice/many{number}", b"others") for number in range(2)}
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert many <= world.data()
    assert bool(few & world.data()) == (objects_max == 0)
    assert held(context) == {codes.TOO_MANY: 2 if objects_max else 4}


def test_sizes_that_very_many_objects_have_are_held_and_the_others_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_PLACES_MAX", 10)
    world = make_world()
    many(world, 40)
    world.upload("rare", b"as rare as can be")
    world.lake.commit()
    frequent = world.orphan("data/slice/frequent", b"else")
    rare = world.orphan("data/slice/rare", b"AS RARE AS CAN BE")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert frequent in world.data()
    assert rare not in world.data()
    assert held(context) == {codes.TOO_MANY: 1}


def test_a_missing_page_of_a_branch_that_is_there_is_no_answer() -> None:
    """A head that cannot be read is "not found" as well, and then nobody looked at what is staged."""
    world = make_world()
    many(world, 40)
    again = world.upload("many/00000", b"same")

    def missing(*_: object) -> None:
        raise NotFoundError("commit not found")

    world.client.objects_page = missing  # type: ignore[assignment, method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


def test_a_branch_with_the_name_of_a_commit_gives_no_answer() -> None:
    """A server refuses such a name for a commit that exists, and takes it for the commit when that comes later."""
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    name = "c0ffee" * 10 + "c0ff"
    world.lake.catalog.branches.create_branch(world.lake.repository, name, "main")
    again = world.upload("a", b"same", name)
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert again in world.data()
    assert held(context) == {codes.NO_ANSWER: 1}


FIRST = "data/aaafirst___0000000000000000slice/00collides1111111111111111"
SECOND = "data/aaa3qsr9sbl0000000000000000slice/00qb5gLi.&1111111111111111"
"""Two addresses with one hash. Who may choose addresses finds such a pair within seconds."""


def test_sweep_keeps_a_held_object_that_has_the_hash_of_a_cleared_one() -> None:
    assert hash64(pa.array([FIRST]))[0] == hash64(pa.array([SECOND]))[0]
    world = make_world()
    world.upload("b", b"longer")
    stage_again(world, world.orphan("data/slice/first", b"same"), "a", size_bytes=4)
    world.lake.commit()
    stage_again(world, world.orphan(FIRST, b"size"), "a", size_bytes=4)
    world.orphan(SECOND, b"LONGER")
    assert world.served()["a"] == FIRST
    honest = world.client.stat

    def stat(repository: str, ref: str, path: str) -> ObjectStats:
        if path == "a":
            raise UnavailableError("lakeFS answered 503 'slow down'")
        return honest(repository, ref, path)

    world.client.stat = stat  # type: ignore[method-assign]
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert held(context) == {codes.NO_ANSWER: 1}
    assert FIRST in world.data()
    assert SECOND not in world.data()
    kept = {group["code"] for group in summary_of(context, "bulk_delete").details["groups"] if group["code"]}
    assert kept == {codes.NO_ANSWER}


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
