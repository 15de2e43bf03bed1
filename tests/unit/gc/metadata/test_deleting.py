"""Which versions of a file go, which copies are looked for, and which copies are too old: each bound by itself."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.metadata import deleting
from dredge.gc.metadata.deleting import (
    DELETED,
    FAILED,
    PURGED,
    UNSENT,
    File,
    OldCopies,
    Taken,
    copy_aside,
    delete_files,
    find_copies,
    old_copies,
    purge_copies,
    put_back,
    read_versions,
)
from dredge.gc.run import METADATA_RUNS
from dredge.storage import NOT_SENT, DeleteOutcome, open_reader, open_versions, open_writer
from dredge.storage.model import MaySend, always
from dredge.undo.ways import quarantine_uri
from dredge.xid import new_descending_xid
from tests.support.memory_store import MemoryStore, MemoryVersionDeleter, forget_memory_store, memory_store
from tests.support.memory_versions import OlderVersions
from tests.support.objectstore import make_bucket, moto_server

NOW = datetime(2026, 3, 1, tzinfo=UTC)
A, B, C = ("a" * 64, "b" * 64, "c" * 64)
DAYS = 7


@pytest.fixture
def lake() -> Iterator[str]:
    name = f"taking-{uuid.uuid4().hex[:8]}"
    store = memory_store(name)
    store.older, store.clock = OlderVersions(), lambda: NOW
    yield f"memory://{name}/lake"
    forget_memory_store(name)


def store_of(lake: str) -> MemoryStore:
    return memory_store(lake.split("/")[2])


def write(lake: str, name: str, at: datetime = NOW, data: bytes = b"range") -> None:
    store_of(lake).clock = lambda: at
    open_writer(lake).put(f"_lakefs/{name}", data)


def ids_of(lake: str, name: str) -> list[str]:
    return [item.version_id for item in open_versions(lake).versions(f"_lakefs/{name}")]


def test_a_file_whose_copy_is_not_like_it_or_fails_stays(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(lake, A)
    run, file = f"{lake}/run", File(A, "garbage_ranges", 5, ("v",))
    assert copy_aside(lake, run, [file]) == [None]
    assert open_reader(quarantine_uri(run)).get(f"_lakefs/{A}") == b"range"
    assert copy_aside(lake, run, [File(A, "", 6, ()), file]) == [
        Taken(File(A, "", 6, ()), FAILED, "its copy has another size"),
        None,
    ]
    (failed,) = copy_aside(lake, run, [File(B, "", 5, ())])
    assert failed is not None
    assert (failed.outcome, failed.message.partition(":")[0]) == (FAILED, "it could not be copied")


class Deleter:
    """Of exact versions; answers for single ids as it is told."""

    def __init__(self, **answers: tuple[str, str]) -> None:
        self.answers = answers
        self.asked: list[Sequence[tuple[str, str]]] = []

    def delete(self, wanted: Sequence[tuple[str, str]], _may_send: MaySend) -> list[DeleteOutcome]:
        self.asked.append(wanted)
        found = [self.answers.get(version_id, ("deleted", "")) for _, version_id in wanted]
        return [DeleteOutcome(key, *answer) for (key, _), answer in zip(wanted, found, strict=True)]  # type: ignore[arg-type]


def test_the_oldest_version_goes_first_and_one_that_stays_makes_the_file_stay(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleter = Deleter(v2=("missing", ""), v4=("failed", "Slow"), v6=("failed", NOT_SENT))
    monkeypatch.setattr(deleting, "open_exact_version_deleter", lambda *_: deleter)
    files = [File(A, "", 5, ("v1", "v2")), File(B, "", 5, ("v3", "v4", "v5")), File(C, "", 5, ("v6",))]
    found = list(delete_files(lake, files, always))
    assert [(item.file, item.outcome, item.message) for item in found] == [
        (files[0], DELETED, ""),
        (files[1], FAILED, "Slow: "),
        (files[2], UNSENT, f"{NOT_SENT}: "),
    ]
    assert deleter.asked == [
        [(f"_lakefs/{A}", "v2"), (f"_lakefs/{A}", "v1")],
        [(f"_lakefs/{B}", name) for name in ("v5", "v4", "v3")],
        [(f"_lakefs/{C}", "v6")],
    ]


def test_one_odd_name_among_files_keeps_all_of_them(lake: str) -> None:
    write(lake, A)
    (version_id,) = ids_of(lake, A)
    files = [File(A, "", 5, (version_id,)), File("dummy", "", 5, ("v",))]
    with pytest.raises(RefusedError, match="'dummy'"):
        list(delete_files(lake, files, always))
    assert ids_of(lake, A) == [version_id]


def copied(lake: str, name: str, at: datetime = NOW, data: bytes = b"range") -> str:
    uri = f"{lake}/{METADATA_RUNS}/{new_descending_xid(at)}"
    open_writer(quarantine_uri(uri)).put(f"_lakefs/{name}", data)
    return uri


LATER = NOW + timedelta(days=DAYS + 1)


def test_of_old_copies_those_stay_that_a_commit_names_that_are_no_tables_or_have_no_ids(lake: str) -> None:
    uri = copied(lake, A)
    copies = open_writer(quarantine_uri(uri))
    for name, data in ((B, b"longer range"), (C, b"range"), ("dummy", b"x")):
        copies.put(f"_lakefs/{name}", data)
    older = store_of(lake).older
    assert older is not None
    older.nameless.update(name for name in store_of(lake).objects if name.endswith(C))
    (found,) = old_copies(lake, {A, "d" * 64}, LATER, DAYS)
    assert found.run_uri == uri
    assert [(file.name, file.kind, file.size, len(file.versions)) for file in found.files] == [
        (B, "copy", 12, 1)
    ]
    assert sorted(found.kept) == sorted([A, C, "dummy"])
    assert [sorted(item.kept) for item in old_copies(lake, {A, B}, LATER, DAYS)] == [
        sorted([A, B, C, "dummy"])
    ]


def test_copies_go_for_good_with_all_their_versions_and_nothing_outside_of_their_folder(
    lake: str, stand_in: Any
) -> None:
    write(lake, A)
    uri = copied(lake, A)
    open_writer(quarantine_uri(uri)).put(f"_lakefs/{A}", b"again")
    (copies,) = old_copies(lake, set(), LATER, DAYS)
    assert [item.outcome for item in purge_copies(copies, lambda: False)] == [UNSENT]
    assert len(open_reader(quarantine_uri(uri)).list_level("_lakefs/").objects) == 1
    assert [item.outcome for item in purge_copies(copies, always)] == [PURGED]
    assert open_reader(quarantine_uri(uri)).list_level("_lakefs/").objects == []
    assert open_versions(quarantine_uri(uri)).versions(f"_lakefs/{A}") == []
    assert open_reader(lake).get(f"_lakefs/{A}") == b"range"
    denied = DeleteOutcome(A, "failed", "AccessDenied")
    stand_in(MemoryVersionDeleter._delete, lambda *_: denied)
    file = File(A, "copy", 5, ("v",))
    assert list(purge_copies(OldCopies(uri, [file], []), always)) == [Taken(file, FAILED, "AccessDenied: ")]


def test_what_is_put_back_has_its_bytes_and_takes_nobodys_place(lake: str) -> None:
    uri = copied(lake, A)
    open_writer(quarantine_uri(uri)).put(f"_lakefs/{B}", b"copy")
    write(lake, B, data=b"written meanwhile")
    assert put_back(lake, {A: uri, B: uri}) == [A]
    assert open_reader(lake).get(f"_lakefs/{A}") == b"range"
    assert open_reader(lake).get(f"_lakefs/{B}") == b"written meanwhile"


NAME = "ab" * 32


def test_what_is_written_between_the_look_and_the_deletion_stays_and_a_copy_comes_back() -> None:
    with moto_server() as options:
        bucket = make_bucket(options, versioned=True)
        namespace, now = f"{bucket.uri}/lake", datetime.now(UTC)
        run_uri = f"{namespace}/{METADATA_RUNS}/{new_descending_xid(now)}"
        writer = open_writer(namespace, options)
        for _ in range(2):
            writer.put(f"_lakefs/{NAME}", b"range")
        assert list(read_versions(namespace, [NAME], now - timedelta(days=1), options)) == [()], "young"
        (versions,) = read_versions(namespace, [NAME], now + timedelta(days=1), options)
        assert len(versions) == 2
        file = File(NAME, "garbage_ranges", 5, versions)
        assert copy_aside(namespace, run_uri, [file], options) == [None]

        writer.put(f"_lakefs/{NAME}", b"range")  # a commit does
        (taken,) = delete_files(namespace, [file], always, options)
        assert taken.outcome == DELETED
        assert writer.get(f"_lakefs/{NAME}") == b"range"

        (left,) = read_versions(namespace, [NAME], now + timedelta(days=1), options)
        assert len(left) == 1
        list(delete_files(namespace, [File(NAME, "garbage_ranges", 5, left)], always, options))
        with pytest.raises(NotFoundError):
            open_reader(namespace, options).stat(f"_lakefs/{NAME}")

        copies = find_copies(namespace, {NAME, "cd" * 32}, now, 7, options)
        assert copies == {NAME: run_uri}
        assert find_copies(namespace, {NAME}, now + timedelta(days=8), 7, options) == {}
        assert put_back(namespace, copies, options) == [NAME]
        assert writer.get(f"_lakefs/{NAME}") == b"range"
        writer.put(f"_lakefs/{NAME}", b"somebody's")
        assert put_back(namespace, copies, options) == []
        assert writer.get(f"_lakefs/{NAME}") == b"somebody's"
