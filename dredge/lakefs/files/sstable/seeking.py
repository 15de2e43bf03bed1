"""A table of which only some blocks are read: where a few records of a long range are wanted.

What is read is checked as the strict reader does it: the properties, the index (its blocks fill the file), and of each
block that is read its checksum and its order. The id of the table, which all records make, is not: who needs it reads
the table whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.lakefs.files.sstable.layout import KEY_TRAILER_SIZE
from dredge.lakefs.files.sstable.reader import Record, data_blocks, read_block


class SeekableTable:
    """Reads records from some key on. Safe for use from many threads.

    Args:
        data: the file.
        name: name of the file in error messages.
        kind: `ranges` or `metaranges` of objects.

    Attributes:
        count: number of records, by the properties.
        max_key: the last key, by the properties.
        size: of the file in bytes.

    Raises:
        FormatError: the file is damaged, or of another kind.
    """

    def __init__(self, data: bytes, name: str, kind: str) -> None:
        envelope = read_envelope(data, name, kind, None)
        self.count = envelope.records
        self.max_key = envelope.max_key
        self.size = len(data)
        self._data = data
        self._name = name
        self._blocks = list(data_blocks(data, envelope, name))
        # An index key is not less than the last key of its block, and less than the first of the next one.
        self._bounds = [separator[:-KEY_TRAILER_SIZE] for _, separator in self._blocks]
        self._read: dict[int, list[Record]] = {}

    def records(self, start: bytes) -> Iterator[Record]:
        """Records from a key on, block by block.

        Args:
            start: no record has a lesser key.

        Raises:
            FormatError: a block is damaged.
        """
        first = bisect_left(self._bounds, start)
        for number in range(first, len(self._blocks)):
            records = self._block(number)
            yield from records[bisect_left(records, start, key=lambda record: record.key) :]

    def place(self, at: float) -> bytes | None:
        """A key right before that of some record; None for the first one. Reads one block.

        Args:
            at: how far into the table, from 0 to 1 (excluded); all blocks count alike.

        Raises:
            FormatError: the block is damaged.
        """
        whole = at * len(self._blocks)
        number = int(whole)
        records = self._block(number)
        index = int((whole - number) * len(records))
        if index:
            return records[index - 1].key
        return self._bounds[number - 1] if number else None

    def _block(self, number: int) -> list[Record]:
        found = self._read.get(number)
        if found is None:
            handle, separator = self._blocks[number]
            found = []
            read_block(self._data, handle, separator, number, found, self._name)
            self._read[number] = found
        return found
