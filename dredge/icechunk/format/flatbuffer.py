"""Read a flatbuffer by slot number, with every offset checked: no generated code, no schema compiler.

    root        u32 at byte 0 → position of the root table
    table       i32 at its position: distance back to its vtable; fields follow inline
    vtable      u16 length of the vtable, u16 length of the table, then one u16 a slot: offset in the table,
                0 = absent
    reference   u32 at the field: distance forward to a table, string or vector
    vector      u32 count, then the items; a string is a vector of bytes

All numbers are little endian. A wrong offset raises FormatError with file and place; it never returns a wrong value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct

from dredge.errors import FormatError

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


class Vector(Struct, frozen=True):
    """A vector's items: position of the first, and their number."""

    start: int
    count: int


class Buffer:
    """A flatbuffer and the name of its file."""

    __slots__ = ("data", "name", "size")

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        self.data = data
        self.name = name
        self.size = len(data)

    def root(self) -> Table:
        """The root table."""
        return self.table_at(self.follow(0))

    def fail(self, what: str, place: int) -> FormatError:
        """Make the error for a place in the decoded body."""
        return FormatError(f"{self.name}: {what} at byte {place} of the decoded body ({self.size} bytes)")

    def u32(self, place: int) -> int:
        """Read a u32."""
        if not 0 <= place <= self.size - 4:
            raise self.fail("number outside the buffer", place)
        return int(_U32.unpack_from(self.data, place)[0])

    def follow(self, place: int) -> int:
        """Follow the reference at a place."""
        target = place + self.u32(place)
        if target > self.size - 4:
            raise self.fail("reference to a place outside the buffer", place)
        return target

    def vector_at(self, place: int, item_bytes: int) -> Vector:
        """Check and return the vector at a place."""
        count = self.u32(place)
        if place + 4 + count * item_bytes > self.size:
            raise self.fail(f"vector of {count} items is longer than the buffer", place)
        return Vector(place + 4, count)

    def table_at(self, place: int) -> Table:
        """Check and return the table at a place."""
        if not 0 <= place <= self.size - 4:
            raise self.fail("table outside the buffer", place)
        vtable = place - _I32.unpack_from(self.data, place)[0]
        if not 0 <= vtable <= self.size - 4:
            raise self.fail("table whose vtable is outside the buffer", place)
        vtable_bytes, table_bytes = struct.unpack_from("<HH", self.data, vtable)
        if (
            vtable_bytes < 4
            or vtable_bytes % 2
            or vtable + vtable_bytes > self.size
            or place + table_bytes > self.size
        ):
            raise self.fail("damaged vtable", vtable)
        return Table(self, place, vtable, vtable_bytes, table_bytes)


class Table:
    """A table; fields have slot numbers."""

    __slots__ = ("buffer", "place", "table_bytes", "vtable", "vtable_bytes")

    def __init__(self, buffer: Buffer, place: int, vtable: int, vtable_bytes: int, table_bytes: int) -> None:
        self.buffer = buffer
        self.place = place
        self.vtable = vtable
        self.vtable_bytes = vtable_bytes
        self.table_bytes = table_bytes

    def field(self, slot: int, size: int) -> int:
        """Return the place of a field of `size` bytes; 0 if absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_bytes:
            return 0
        offset = int(_U16.unpack_from(self.buffer.data, self.vtable + entry)[0])
        if not offset:
            return 0
        if offset < 4 or offset + size > self.table_bytes:
            raise self.buffer.fail(f"slot {slot} is outside its table", self.place)
        return self.place + offset

    def number(self, slot: int, size: int, *, signed: bool = False) -> int:
        """Read a number of `size` bytes; 0 if absent."""
        place = self.field(slot, size)
        return int.from_bytes(self.buffer.data[place : place + size], "little", signed=signed) if place else 0

    def inline(self, slot: int, size: int) -> bytes | None:
        """Read a struct inside the table, or None."""
        place = self.field(slot, size)
        return bytes(self.buffer.data[place : place + size]) if place else None

    def required_inline(self, slot: int, size: int, what: str) -> bytes:
        """Read a required struct."""
        value = self.inline(slot, size)
        if value is None:
            raise self.buffer.fail(f"no {what} (slot {slot})", self.place)
        return value

    def vector(self, slot: int, item_bytes: int) -> Vector | None:
        """The vector of items of a fixed size, or None."""
        place = self.field(slot, 4)
        return self.buffer.vector_at(self.buffer.follow(place), item_bytes) if place else None

    def bytes_of(self, slot: int) -> bytes:
        """Read a vector of bytes; empty if absent."""
        found = self.vector(slot, 1)
        return bytes(self.buffer.data[found.start : found.start + found.count]) if found else b""

    def text(self, slot: int) -> str | None:
        """Read a string, or None."""
        found = self.vector(slot, 1)
        if found is None:
            return None
        try:
            return bytes(self.buffer.data[found.start : found.start + found.count]).decode("utf-8")
        except UnicodeDecodeError:
            raise self.buffer.fail("string is not UTF-8", found.start) from None

    def required_text(self, slot: int, what: str) -> str:
        """Read a required string."""
        value = self.text(slot)
        if value is None:
            raise self.buffer.fail(f"no {what} (slot {slot})", self.place)
        return value

    def structs(self, slot: int, item_bytes: int) -> Iterator[bytes]:
        """Read a vector of structs one by one; empty if absent."""
        found = self.vector(slot, item_bytes)
        if found is not None:
            for place in range(found.start, found.start + found.count * item_bytes, item_bytes):
                yield bytes(self.buffer.data[place : place + item_bytes])

    def table(self, slot: int) -> Table | None:
        """Follow a reference to a table, or None."""
        place = self.field(slot, 4)
        return self.buffer.table_at(self.buffer.follow(place)) if place else None

    def tables(self, slot: int) -> Iterator[Table]:
        """Read a vector of tables one by one; empty if absent."""
        found = self.vector(slot, 4)
        if found is not None:
            for place in range(found.start, found.start + found.count * 4, 4):
                yield self.buffer.table_at(self.buffer.follow(place))
