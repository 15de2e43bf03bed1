"""Ids are spelled one way only, one by one and in bulk alike."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.icechunk.ids import decode_id, encode_id, encode_ids, hash_of, hashes_of, hashes_of_names, is_id
from tests.support.icechunk import ROOT_ID

RAW = [random.Random(7).randbytes(12) for _ in range(500)] + [bytes(12), b"\xff" * 12]


def test_ids_round_trip_and_end_with_0_or_g() -> None:
    for raw in RAW:
        text = encode_id(raw)
        assert decode_id(text) == raw
        assert len(text) == 20
        assert text[-1] in "0G"
    assert encode_id(decode_id(ROOT_ID)) == ROOT_ID
    assert len(encode_id(b"12345678")) == 13


@pytest.mark.parametrize(
    "text", ["", "README.txt", "0" * 19 + "1", "1cechnkrep0f1rstcmt0", "O" * 20, "0" * 21, "é" * 20]
)
def test_other_spellings_are_no_ids(text: str) -> None:
    assert not is_id(text)
    with pytest.raises(FormatError):
        decode_id(text)
    _, right = hashes_of_names(pa.array([text]))
    assert not right[0]


def test_bulk_spelling_and_hashes_equal_the_slow_ones() -> None:
    raw = np.frombuffer(b"".join(RAW), dtype=np.uint8).reshape(-1, 12)
    names = encode_ids(raw)
    assert names.to_pylist() == [encode_id(one) for one in RAW]
    expected = [hash_of(name) for name in names.to_pylist()]
    assert hashes_of(raw).tolist() == expected
    mixed = pa.chunked_array([pa.array(["README.txt", None]), names.slice(3), pa.array(["0" * 19 + "1"])])
    hashes, right = hashes_of_names(mixed)
    assert right.tolist() == [False, False] + [True] * (len(RAW) - 3) + [False]
    assert hashes[right].tolist() == expected[3:]


def test_no_names_give_no_hashes() -> None:
    hashes, right = hashes_of_names(pa.array([], pa.string()))
    assert len(hashes) == len(right) == 0
