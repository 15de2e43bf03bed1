"""Footer, metaindex and properties of a table, and their consistency.

Both readers, the strict one of whole records and the fast one of columns, start here.
"""

from __future__ import annotations

from dataclasses import dataclass

from dredge.lakefs.files.sstable.layout import (
    FOOTER_SIZE,
    Handle,
    block_entries,
    damaged,
    get_footer,
    get_handle,
    get_uvarint,
    load_block,
)

RANGES = "ranges"
METARANGES = "metaranges"
SINGLE_LEVEL, TWO_LEVEL = 0, 2
_KINDS = (b"ranges", b"metaranges")
_COMPUTED = frozenset({"min_key", "max_key", "count", "estimated_size_bytes"})
_PROPERTIES = b"rocksdb.properties"
_EXPECTED = {
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything about a table except its records.

    Attributes:
        index: the index block; the top block of a two-level index.
        two_level: whether its entries point to partitions of the index rather than to data blocks.
        key_bytes: total size of the keys, each with its trailer.
    """

    properties: dict[str, bytes]
    index: Handle
    two_level: bool
    data_size: int
    records: int
    blocks: int
    key_bytes: int
    value_bytes: int
    max_key: bytes

    @property
    def kind(self) -> str:
        """`ranges` or `metaranges`."""
        return self.properties["type"].decode()

    @property
    def entity(self) -> str | None:
        """Kind of records of a refs dump (`commit`, `branch`, `tag`); None for a table of objects."""
        value = self.properties.get("entity")
        return None if value is None else value.decode(errors="replace")


def user_properties(properties: dict[str, bytes]) -> dict[str, bytes]:
    """The properties in a table's id: `type`, and those of a dump."""
    return {
        key: value
        for key, value in properties.items()
        if not key.startswith("rocksdb.") and key not in _COMPUTED
    }


def read_envelope(data: bytes, name: str, kind: str | None, expected_count: int | None) -> Envelope:
    """Read and check footer, metaindex and properties.

    Args:
        kind: `ranges` or `metaranges` of objects; None accepts refs dumps as well.
    """
    footer = get_footer(data, name)
    if footer.metaindex.end != len(data) - FOOTER_SIZE:
        raise damaged(name, f"metaindex block at {footer.metaindex}", "does not end where the footer starts")
    where, properties = _read_properties(data, footer.metaindex, name)
    if where.end != footer.metaindex.offset:
        raise damaged(name, f"properties block at {where}", "does not end where the metaindex starts")
    if footer.index.end != where.offset:
        raise damaged(name, f"index block at {footer.index}", "does not end where the properties start")
    envelope = _interpret(properties, footer.index, name)
    if envelope.data_size > footer.index.offset:
        raise damaged(name, "properties", f"data of {envelope.data_size} bytes run into the index")
    if kind is not None:
        if envelope.entity is not None:
            raise damaged(
                name, "properties", f"a refs dump (entity {envelope.entity}), not a table of objects"
            )
        if envelope.kind != kind:
            raise damaged(name, "properties", f"a table of {envelope.kind}, where one of {kind} is expected")
    if expected_count is not None and envelope.records != expected_count:
        raise damaged(name, "properties", f"{envelope.records} records, where {expected_count} are expected")
    return envelope


def _read_properties(data: bytes, metaindex: Handle, name: str) -> tuple[Handle, dict[str, bytes]]:
    entries = list(
        block_entries(load_block(data, metaindex, name, "metaindex block"), name, "metaindex block")
    )
    if [entry.key for entry in entries] != [_PROPERTIES]:
        names = ", ".join(repr(entry.key) for entry in entries)
        raise damaged(
            name, f"metaindex block at {metaindex}", f"holds {names or 'nothing'}, not only properties"
        )
    raw = entries[0].value
    try:
        handle, at = get_handle(raw, 0, len(raw))
    except ValueError as error:
        raise damaged(name, f"metaindex block at {metaindex}", str(error)) from error
    if at != len(raw):
        raise damaged(name, f"metaindex block at {metaindex}", "bytes behind the handle of the properties")
    properties: dict[str, bytes] = {}
    last = b""
    for entry in block_entries(load_block(data, handle, name, "properties block"), name, "properties block"):
        if entry.key <= last:
            raise damaged(name, f"properties block at {handle}", f"{entry.key!r} is out of order")
        last = entry.key
        properties[entry.key.decode(errors="surrogateescape")] = entry.value
    return handle, properties


def _interpret(properties: dict[str, bytes], index: Handle, name: str) -> Envelope:
    for key, value in _EXPECTED.items():
        if properties.get(key, value) != value:
            raise damaged(name, "properties", f"{key} is {properties[key]!r}, not {value!r}")
    try:
        index_type = int.from_bytes(properties["rocksdb.block.based.table.index.type"], "little")
        kind = properties["type"]
        count = int(properties["count"])
        envelope = Envelope(
            properties=properties,
            index=index,
            two_level=index_type == TWO_LEVEL,
            data_size=_number(properties["rocksdb.data.size"]),
            records=_number(properties["rocksdb.num.entries"]),
            blocks=_number(properties["rocksdb.num.data.blocks"]),
            key_bytes=_number(properties["rocksdb.raw.key.size"]),
            value_bytes=_number(properties["rocksdb.raw.value.size"]),
            max_key=properties["max_key"],
        )
    except KeyError as error:
        raise damaged(name, "properties", f"{error.args[0]} is missing") from error
    except ValueError as error:
        raise damaged(name, "properties", str(error)) from error
    if index_type not in (SINGLE_LEVEL, TWO_LEVEL):
        raise damaged(name, "properties", f"index type {index_type} is neither one level (0) nor two (2)")
    if kind not in _KINDS:
        raise damaged(name, "properties", f"type is {kind!r}, neither ranges nor metaranges")
    if count != envelope.records:
        raise damaged(name, "properties", f"count is {count}, but there are {envelope.records} entries")
    return envelope


def _number(value: bytes) -> int:
    return get_uvarint(value, 0, len(value))[0]
