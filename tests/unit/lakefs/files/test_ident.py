"""The canonical form of hashed things, against bytes worked out by hand."""

from __future__ import annotations

import hashlib

from dredge.lakefs.files.ident import Ident, string_map


def test_each_part_has_the_bytes_of_the_description() -> None:
    length = bytes.fromhex("0208") + (2).to_bytes(8, "big")
    assert Ident().int64(2).digest() == hashlib.sha256(length).digest()
    assert Ident().string("hi").digest() == hashlib.sha256(b"\x01" + length + b"hi").digest()
    assert Ident().raw(b"hi").digest() == hashlib.sha256(b"\x00" + length + b"hi").digest()
    one = b"\x01\x02\x08" + (1).to_bytes(8, "big")
    assert (
        Ident().strings(["a", "b"]).digest()
        == hashlib.sha256(b"\x03" + length + one + b"a" + one + b"b").digest()
    )
    inner = Ident().int64(-1)
    outer = b"\x05\x00\x02\x08" + (32).to_bytes(8, "big") + inner.digest()
    assert Ident().embedded(inner).hexdigest() == hashlib.sha256(outer).hexdigest()


def test_maps_are_hashed_in_byte_order_of_their_keys() -> None:
    assert string_map({"b": "1", "a": "2", "Z": "3"}) == string_map({"Z": "3", "a": "2", "b": "1"})
    assert string_map({"é": "1", "z": "2"}) == string_map({"z": b"2", "é": b"1"})
