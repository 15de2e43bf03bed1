"""Tables put together block by block, sound or with damage not detected by a checksum."""

from collections.abc import Sequence

import cramjam

from dredge.lakefs.files.sstable.layout import Handle, load_block, read_envelope
from dredge.lakefs.files.sstable.reader import data_blocks
from lakefs_embedded.committed.tables import TableWriter, put_trailer


def blocks_of(data: bytes) -> list[bytes]:
    envelope = read_envelope(data, "blocks", None, None)
    return [
        load_block(data, handle, "blocks", "block") for handle, _ in data_blocks(data, envelope, "blocks")
    ]


class RawWriter(TableWriter):
    def add_block(self, body: bytes, last_key: bytes, *, compress: bool = True) -> None:
        """Append a data block; its index key is `last_key`, even if wrong."""
        if compress:
            handle = self._write_block(body)
        else:
            handle = Handle(len(self._out), len(body))
            self._out += body + put_trailer(body, 0)
        self._add_handle(last_key, handle)

    def add_stored(self, stored: bytes, block_type: int, last_key: bytes) -> None:
        handle = Handle(len(self._out), len(stored))
        self._out += stored + put_trailer(stored, block_type)
        self._add_handle(last_key, handle)

    def _add_handle(self, last_key: bytes, handle: Handle) -> None:
        from dredge.lakefs.files.sstable.layout import RECORD_TRAILER
        from lakefs_embedded.committed.tables import put_handle

        key = last_key + RECORD_TRAILER
        if self._index.is_full_for(len(key), 20):
            self._close_partition()
        self._index.add(key, put_handle(handle))

    def finish_as(self, count: int, max_key: bytes, key_bytes: int, value_bytes: int) -> bytes:
        self.count, self.max_key = count, max_key
        self._key_bytes, self._value_bytes = key_bytes, value_bytes
        return self.finish().data


def table_of_blocks(
    bodies: Sequence[bytes],
    keys: Sequence[bytes],
    count: int,
    max_key: bytes,
    key_bytes: int,
    value_bytes: int,
) -> bytes:
    """A table of any data blocks; the rest of it is sound."""
    writer = RawWriter("ranges")
    for body, key in zip(bodies, keys, strict=True):
        writer.add_block(body, key)
    return writer.finish_as(count, max_key, key_bytes, value_bytes)


def snappy(body: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(body))
