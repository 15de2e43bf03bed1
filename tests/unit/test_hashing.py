"""Hashes are XXH64's, as the library of its author computes it."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest as xxh64

from dredge import hashing
from dredge.compiled import kernels
from dredge.hashing import hash64


@pytest.fixture(params=["compiled", "library"], autouse=True, scope="module")
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    kernels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "are_loaded", lambda: request.param == "compiled")
        yield


def test_the_reference_is_the_published_function() -> None:
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"a", 0) == 0xD24EC4F1A98C6E5B
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999


def test_hashes_are_those_of_spark() -> None:
    # SELECT xxhash64('') , xxhash64('Spark'): the second stands in Spark's documentation of the function.
    assert hash64(pa.array([b"Spark"])).view(np.int64)[0] == -4294468057691064905
    assert np.int64(hash64(pa.array([None], pa.string()))[0]) == 42


def test_every_length_hashes_as_the_reference_says() -> None:
    texts = [bytes(range(256))[:size] for size in range(150)] + [b"\xff" * 5000]
    assert hash64(pa.array(texts, pa.binary())).tolist() == [xxh64(text, 42) for text in texts]


@given(st.lists(st.text(max_size=80) | st.none(), max_size=20), st.integers(0, 5))
def test_any_shape_of_column_hashes_alike(texts: list[str | None], start: int) -> None:
    expected = [42 if text is None else xxh64(text.encode(), 42) for text in texts]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        column = pa.array(texts, pa.string()).cast(kind)
        assert hash64(column).tolist() == expected
        assert hash64(column.slice(start)).tolist() == expected[start:]
        assert hash64(pa.chunked_array([column, column[:0], column])).tolist() == expected * 2
    assert hash64(pa.chunked_array([], pa.string())).tolist() == []


def test_few_texts_are_no_reason_to_load_the_compiler() -> None:
    code = (
        "import sys, pyarrow as pa; from dredge.hashing import hash64;"
        "hash64(pa.array(['a'] * 1000)); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
