"""Hashes are XXH64's, by compiled kernels and by numpy alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge import hashing
from dredge.hashing import content_hash, hash64, hash64_bytes


def reference(data: bytes, seed: int) -> int:
    """XXH64 from its specification, number by number."""
    mask = (1 << 64) - 1
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def rotate(x: int, r: int) -> int:
        return (x << r | x >> (64 - r)) & mask

    def step(acc: int, lane: int) -> int:
        return rotate((acc + lane * p2) & mask, 31) * p1 & mask

    at, size = 0, len(data)
    if size >= 32:
        lanes = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= size:
            for i in range(4):
                lanes[i] = step(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        acc = sum(rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            acc = ((acc ^ step(0, lane)) * p1 + p4) & mask
    else:
        acc = (seed + p5) & mask
    acc = (acc + size) & mask
    while at + 8 <= size:
        acc = (rotate(acc ^ step(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= size:
        acc = (rotate(acc ^ int.from_bytes(data[at : at + 4], "little") * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        acc = rotate(acc ^ byte * p5 & mask, 11) * p1 & mask
    acc = (acc ^ acc >> 33) * p2 & mask
    acc = (acc ^ acc >> 29) * p3 & mask
    return acc ^ acc >> 32


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "numpy":
        monkeypatch.setattr(hashing, "kernels", lambda: None)
    return request.param


def test_the_reference_is_the_published_function() -> None:
    assert reference(b"", 0) == 0xEF46DB3751D8E999
    assert reference(b"a", 0) == 0xD24EC4F1A98C6E5B
    assert reference(b"abc", 0) == 0x44BC2CF5AD770999


def test_hashes_are_those_of_spark(way: str) -> None:
    # SELECT xxhash64('') , xxhash64('Spark'): the second stands in Spark's documentation of the function.
    assert np.int64(np.uint64(hash64_bytes(b"Spark"))) == -4294468057691064905
    assert np.int64(hash64(pa.array([None], pa.string()))[0]) == 42


def test_every_length_hashes_as_the_reference_says(way: str) -> None:
    texts = [bytes(range(256))[:size] for size in range(150)] + [b"\xff" * 5000]
    assert hash64(pa.array(texts, pa.binary())).tolist() == [reference(text, 42) for text in texts]
    etags = pa.array([text.hex() for text in texts])
    sizes = np.arange(len(texts), dtype=np.int64) * 3 - 50
    expected = [
        reference(text.hex().encode(), int(size) % (1 << 64)) for text, size in zip(texts, sizes, strict=True)
    ]
    assert content_hash(sizes, etags).tolist() == expected


@given(st.lists(st.text(max_size=80) | st.none(), max_size=20), st.integers(0, 5))
def test_any_shape_of_column_hashes_alike(texts: list[str | None], start: int) -> None:
    expected = [42 if text is None else reference(text.encode(), 42) for text in texts]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        column = pa.array(texts, pa.string()).cast(kind)
        assert hash64(column).tolist() == expected
        assert hash64(column.slice(start)).tolist() == expected[start:]
        assert hash64(pa.chunked_array([column, column[:0], column])).tolist() == expected * 2
    assert hash64(pa.chunked_array([], pa.string())).tolist() == []


def test_a_missing_etag_counts_as_empty_and_its_size_still_counts(way: str) -> None:
    sizes = pa.array([1, 2, 1], pa.int64())
    hashes = content_hash(sizes, pa.array([None, None, ""], pa.string()))
    assert hashes[0] == hashes[2] != hashes[1]
    chunked = content_hash(pa.chunked_array([sizes]), pa.chunked_array([pa.array(["", "", ""])]))
    assert chunked.tolist() == hashes.tolist()


def test_sizes_and_etags_must_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="2 sizes for 1 etags"):
        content_hash(np.zeros(2, np.int64), pa.array(["x"]))
