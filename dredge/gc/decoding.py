"""From a range file to numbers: the hashes of the addresses and contents it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.hashes import Hashes, unite
from dredge.gc.ranges import METADATA, RangeFacts
from dredge.graveler.addresses import address_readings
from dredge.graveler.committed.entries import Entry
from dredge.graveler.committed.values import Value
from dredge.graveler.sstable import RANGES, read_table
from dredge.hashing import content_hash, hash64

ODD_ETAG = np.uint64(1 << 63)
"""Set in a size when an entry of that size has an ETag that is no MD5: its content cannot be told from
bytes."""
_MD5_LENGTH = 32


@dataclass(frozen=True, slots=True)
class RangeHashes:
    """What the committed index keeps of a range.

    Attributes:
        range_id: its name.
        count: records, verified.
        addresses: hash of every key of the namespace that its entries may mean, distinct, sorted.
        contents: hash of size and ETag of each entry, distinct, sorted.
        sizes: of the entries, distinct, sorted; with `ODD_ETAG` set once more when an ETag of that size is no
            MD5.
    """

    range_id: str
    count: int
    addresses: Hashes
    contents: Hashes
    sizes: Hashes


def decode_ranges(
    files: Iterable[tuple[str, bytes]], facts: dict[str, RangeFacts], namespace: str
) -> Iterator[RangeHashes]:
    """Decode range files.

    Args:
        files: key below the namespace, and content.
        facts: what the metaranges say, by range id.
        namespace: URI.

    Raises:
        FormatError: damaged, or not the range that its name and metarange promise.
    """
    for key, data in files:
        range_id = key.removeprefix(METADATA)
        expected = facts[range_id]
        table = read_table(data, key, kind=RANGES, expected_count=expected.count)
        if table.records and table.records[-1].key != expected.max_key:
            raise FormatError(
                f"{key}: ends with {table.records[-1].key!r}, its metarange says {expected.max_key!r}"
            )
        entries = [Entry.decode(Value.decode(record.value, key).data, key) for record in table.records]
        sizes = np.array([entry.size for entry in entries], np.int64)
        etags = pa.array([entry.etag for entry in entries], pa.string())
        keys = [
            reading
            for entry in entries
            for reading in address_readings(entry.address, entry.address_type, namespace)
        ]
        yield RangeHashes(
            range_id,
            len(entries),
            np.unique(hash64(pa.array(keys, pa.string()))),
            np.unique(content_hash(sizes, etags)),
            _sizes(sizes, etags),
        )


def _sizes(sizes: npt.NDArray[np.int64], etags: pa.Array) -> Hashes:
    plain = sizes.astype(np.uint64)
    odd = pc.not_equal(pc.binary_length(etags), _MD5_LENGTH).to_numpy(zero_copy_only=False)
    return unite([plain, plain[odd] | ODD_ETAG])


@dataclass(frozen=True, slots=True)
class HeadEntries:
    """Entries of a range, as columns."""

    paths: pa.Array
    contents: Hashes
    sizes: Hashes

    schema: ClassVar[pa.Schema] = pa.schema(
        [("range_id", pa.string()), ("path", pa.string()), ("content", pa.uint64()), ("size", pa.uint64())]
    )

    def table(self, range_id: str) -> pa.Table:
        """As rows."""
        ids = pa.array([range_id] * len(self.paths), pa.string())
        columns = [ids, self.paths, pa.array(self.contents), pa.array(self.sizes)]
        return pa.Table.from_arrays(columns, schema=self.schema)


def entries_of(data: bytes, name: str, expected_count: int) -> HeadEntries:
    """Decode a range with its paths.

    Args:
        data: the file.
        name: what to call it in errors.
        expected_count: records that the metarange promises.

    Raises:
        FormatError: damaged.
    """
    table = read_table(data, name, kind=RANGES, expected_count=expected_count)
    entries = [Entry.decode(Value.decode(record.value, name).data, name) for record in table.records]
    sizes = np.array([entry.size for entry in entries], np.int64)
    etags = pa.array([entry.etag for entry in entries], pa.string())
    # A path that is no UTF-8 cannot be asked for over the API; none is made by it either.
    paths = pa.array([record.key.decode("utf-8", "replace") for record in table.records], pa.string())
    return HeadEntries(paths, content_hash(sizes, etags), sizes.astype(np.uint64))
