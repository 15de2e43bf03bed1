"""What multipart uploads promise, on every store that takes them."""

import hashlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.errors import ConfigError, NotFoundError
from dredge.storage import ObjectWriter, StorageOptions, open_writer
from dredge.storage.local.store import LocalDeleter, LocalWriter
from dredge.storage.location import below, parse_uri
from dredge.storage.model import Level
from lakefs_embedded.uploads import PARTS, PartObjects, UploadRefusedError, Uploads, open_uploads
from tests.support.object_stores import Stores

LARGE = b"x" * (5 << 20)


@pytest.fixture
def writer(stores: Stores) -> ObjectWriter:
    return stores.writer


@pytest.fixture
def uploads(writer: ObjectWriter) -> Uploads:
    return open_uploads(writer)


def listed(writer: ObjectWriter) -> list[str]:
    """Keys, without those of parts."""
    return [
        key for batch in writer.list() for key in batch["key"].to_pylist() if not key.startswith(f"{PARTS}/")
    ]


def test_an_object_is_seen_when_it_is_complete_and_not_before(writer: ObjectWriter, uploads: Uploads) -> None:
    upload_id = uploads.begin("data/a/b")
    first = uploads.put_part("data/a/b", upload_id, 1, iter([LARGE[:100], LARGE[100:]]))
    second = uploads.put_part("data/a/b", upload_id, 2, [b"end"])
    assert (first.number, first.size, first.etag) == (1, len(LARGE), hashlib.md5(LARGE).hexdigest())
    assert listed(writer) == []
    assert "data/" not in writer.list_level().folders
    with pytest.raises(NotFoundError):
        writer.get("data/a/b")
    done = uploads.complete("data/a/b", upload_id, [(1, first.etag), (2, second.etag)])
    assert writer.get("data/a/b") == LARGE + b"end"
    assert listed(writer) == ["data/a/b"]
    digests = hashlib.md5(LARGE).digest() + hashlib.md5(b"end").digest()
    assert done.etag == f"{hashlib.md5(digests).hexdigest()}-2"
    assert done.info == writer.stat("data/a/b")
    with pytest.raises(NotFoundError):
        uploads.parts("data/a/b", upload_id)


def test_parts_are_told_by_number_with_size_hash_and_time(uploads: Uploads) -> None:
    upload_id = uploads.begin("k")
    for number in (30, 2, 10_000):
        uploads.put_part("k", upload_id, number, [str(number).encode()])
    uploads.put_part("k", upload_id, 2, [b"second"])
    found = uploads.parts("k", upload_id)
    assert [(part.number, part.size) for part in found] == [(2, 6), (30, 2), (10_000, 5)]
    assert found[0].etag == hashlib.md5(b"second").hexdigest()
    assert all(abs(part.last_modified - datetime.now(UTC)) < timedelta(minutes=1) for part in found)
    uploads.abort("k", upload_id)


def test_an_error_in_the_pieces_leaves_no_part(uploads: Uploads) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("gone")

    upload_id = uploads.begin("k")
    with pytest.raises(RuntimeError):
        uploads.put_part("k", upload_id, 1, broken())
    assert uploads.parts("k", upload_id) == []


def test_a_wrong_list_is_refused_and_the_upload_stays(writer: ObjectWriter, uploads: Uploads) -> None:
    upload_id = uploads.begin("k")
    a = uploads.put_part("k", upload_id, 1, [LARGE]).etag
    b = uploads.put_part("k", upload_id, 2, [b"b"]).etag
    for parts, code in (
        ([(2, b), (1, a)], "InvalidPartOrder"),
        ([(1, b)], "InvalidPart"),
        ([(3, a)], "InvalidPart"),
        ([], "InvalidPart"),
    ):
        with pytest.raises(UploadRefusedError) as refused:
            uploads.complete("k", upload_id, parts)
        assert refused.value.code == code
    for number in (0, 10_001):
        with pytest.raises(UploadRefusedError):
            uploads.put_part("k", upload_id, number, [b""])
    uploads.complete("k", upload_id, [(1, a), (2, b)])
    assert writer.get("k") == LARGE + b"b"


def test_completing_replaces_what_was_there(writer: ObjectWriter, uploads: Uploads) -> None:
    writer.put("k", b"before")
    upload_id = uploads.begin("k")
    part = uploads.put_part("k", upload_id, 1, [b"after"])
    assert writer.get("k") == b"before"
    uploads.complete("k", upload_id, [(1, part.etag)])
    assert writer.get("k") == b"after"


def test_what_is_over_or_of_another_key_is_not_found(writer: ObjectWriter, uploads: Uploads) -> None:
    over, done, other = uploads.begin("over"), uploads.begin("done"), uploads.begin("other")
    uploads.abort("over", over)
    part = uploads.put_part("done", done, 1, [b"x"])
    uploads.complete("done", done, [(1, part.etag)])
    wrong = [("over", over), ("done", done), ("k", other), ("k", "nothing"), ("k", "../x")]
    for key, upload_id in wrong:
        for call in (
            lambda key=key, upload_id=upload_id: uploads.put_part(key, upload_id, 1, [b"x"]),
            lambda key=key, upload_id=upload_id: uploads.parts(key, upload_id),
            lambda key=key, upload_id=upload_id: uploads.complete(key, upload_id, [(1, part.etag)]),
            lambda key=key, upload_id=upload_id: uploads.abort(key, upload_id),
        ):
            with pytest.raises(NotFoundError):
                call()
    assert uploads.parts("other", other) == []
    assert listed(writer) == ["done"]


def test_an_upload_id_is_no_path_to_objects(writer: ObjectWriter, uploads: Uploads) -> None:
    uploads.begin("other")
    writer.put("trap/key", b"k")
    with pytest.raises(NotFoundError):
        uploads.abort("k", "../trap")
    assert writer.get("trap/key") == b"k"


def test_two_uploads_of_one_key_do_not_mix(writer: ObjectWriter, uploads: Uploads) -> None:
    one, two = uploads.begin("k"), uploads.begin("k")
    first = uploads.put_part("k", one, 1, [b"one"])
    second = uploads.put_part("k", two, 1, [b"two"])
    uploads.complete("k", two, [(1, second.etag)])
    assert writer.get("k") == b"two"
    uploads.complete("k", one, [(1, first.etag)])
    assert writer.get("k") == b"one"


def test_a_part_may_be_empty(writer: ObjectWriter, uploads: Uploads) -> None:
    upload_id = uploads.begin("k")
    parts = [uploads.put_part("k", upload_id, number, [data]) for number, data in ((1, LARGE), (2, b""))]
    uploads.complete("k", upload_id, [(part.number, part.etag) for part in parts])
    assert writer.get("k") == LARGE


def test_parts_may_be_written_at_the_same_time(writer: ObjectWriter, uploads: Uploads) -> None:
    upload_id = uploads.begin("k")
    etags: dict[int, str] = {}

    def put(number: int) -> None:
        etags[number] = uploads.put_part("k", upload_id, number, [LARGE, b"%d" % number]).etag

    threads = [threading.Thread(target=put, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uploads.complete("k", upload_id, sorted(etags.items()))
    assert writer.get("k") == b"".join(LARGE + b"%d" % number for number in range(1, 5))


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_a_key_that_cannot_be_is_refused_at_the_beginning(uploads: Uploads, key: str) -> None:
    with pytest.raises(ConfigError):
        uploads.begin(key)


def test_who_comes_second_to_a_folder_hears_that_the_upload_is_over(tmp_path: Path) -> None:
    class Late(LocalWriter):
        def list_level(self, prefix: str = "") -> Level:
            open_uploads(open_writer(self.uri)).abort("key", upload_id)
            return super().list_level(prefix)

    location = parse_uri(f"file://{tmp_path}", StorageOptions())
    writer = Late(location)
    uploads = PartObjects(writer, LocalDeleter(below(location, PARTS)))
    upload_id = uploads.begin("key")
    etag = hashlib.md5(b"part").hexdigest()
    open_uploads(open_writer(writer.uri)).put_part("key", upload_id, 1, [b"part"])
    with pytest.raises(NotFoundError):
        uploads.complete("key", upload_id, [(1, etag)])
    assert not [found for found in tmp_path.rglob("*") if found.is_file()]


def test_a_part_that_comes_after_the_end_is_removed(tmp_path: Path) -> None:
    uploads = open_uploads(open_writer(f"file://{tmp_path}"))
    upload_id = uploads.begin("key")

    def late() -> Iterator[bytes]:
        yield b"part"
        uploads.abort("key", upload_id)

    with pytest.raises(NotFoundError):
        uploads.put_part("key", upload_id, 1, late())
    assert not [found for found in tmp_path.rglob("*") if found.is_file()]
