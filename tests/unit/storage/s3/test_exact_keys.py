"""No key is ever rewritten on S3 (P14, L38, L44), whatever the client libraries do to it."""

import pytest

from dredge.storage import ObjectDeleter, ObjectReader, StorageOptions, open_deleter, open_reader, open_writer
from tests.support.objectstore import TestBucket, make_bucket

# What the native client rewrites, refuses, or cannot list. (The test server has no route for line breaks.)
UNADDRESSABLE = [
    "data/dir/",
    "data//x",
    "data/x//",
    "data/./x",
    "data/../x",
    "/data/x",
    "/",
    "data/a\tb",
    "data/a\x01b",
    "data/a\x7fb",
    "data/a\u2028b",
    "data/\ufffe",
    " data/x",
    "data/x ",
    "data/ /",
    ".",
    "..",
    "data/..",
]


@pytest.fixture
def bucket(moto_options: StorageOptions) -> TestBucket:
    return make_bucket(moto_options)


@pytest.fixture
def reader(bucket: TestBucket) -> ObjectReader:
    return open_reader(bucket.uri, bucket.options)


@pytest.fixture
def deleter(bucket: TestBucket) -> ObjectDeleter:
    return open_deleter(bucket.uri, bucket.options)


def listed(reader: ObjectReader, prefix: str = "", **bounds: str) -> list[str]:
    return [key for batch in reader.list(prefix, **bounds) for key in batch.column(0).to_pylist()]


def test_every_key_is_listed_exactly(bucket: TestBucket, reader: ObjectReader) -> None:
    bucket.put(*UNADDRESSABLE, "data/plain")
    assert listed(reader) == sorted([*UNADDRESSABLE, "data/plain"], key=str.encode)
    level = reader.list_level("data/")
    assert sorted(level.folders) == ["data/ /", "data/../", "data/./", "data//", "data/dir/", "data/x/"]


@pytest.mark.parametrize("key", UNADDRESSABLE)
def test_every_key_is_read_looked_up_and_deleted_by_its_own_name(
    bucket: TestBucket, reader: ObjectReader, deleter: ObjectDeleter, key: str
) -> None:
    twins = {
        key.strip("/"),
        key.replace("//", "/"),
        key.strip(),
        key.replace("/./", "/"),
        "data/x",
        "x",
        "data",
        "data/dir",
        "data/a b",
        "data/ab",
    } - {key, ""}
    bucket.put(*twins, data=b"live")
    bucket.put(key, data=b"garbage")
    assert reader.get(key) == b"garbage"
    assert reader.get_range(key, 1, 3) == b"arb"
    assert reader.stat(key).size == 7
    assert [(o.key, o.outcome) for o in deleter.delete([key])] == [(key, "deleted")]
    assert bucket.keys() == sorted(twins, key=str.encode)
    assert all(reader.get(twin) == b"live" for twin in twins)


def test_one_key_that_xml_cannot_carry_does_not_spoil_the_batch(
    bucket: TestBucket, reader: ObjectReader, deleter: ObjectDeleter
) -> None:
    good = [f"data/{n:04d}" for n in range(1500)]
    odd = ["data/a\x01b", "data/a\tb", " data/lead", "data/trail ", "data/\ufffe"]
    writer = open_writer(bucket.uri, bucket.options)
    for key in [*good[::50], *odd, "data/keep", "data/lead"]:
        writer.put(key, b"x")
    outcomes = deleter.delete([*good, *odd])
    assert [o.key for o in outcomes] == [*good, *odd]
    assert {o.outcome for o in outcomes} == {"deleted"}
    assert bucket.keys() == ["data/keep", "data/lead"]


def test_writes_of_odd_keys_are_exact(bucket: TestBucket) -> None:
    writer = open_writer(bucket.uri, bucket.options)
    for key in UNADDRESSABLE:
        writer.put(key, key.encode())
    assert bucket.keys() == sorted(UNADDRESSABLE, key=str.encode)
    for key in UNADDRESSABLE:
        assert writer.get(key) == key.encode()
    copied = writer.copy("data//x", "data/copy//y")
    assert copied.key == "data/copy//y"
    assert writer.get("data/copy//y") == b"data//x"
