"""What is kept of a range file: every key that an entry may mean, whatever else is in the file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.gc.index.ranges import RangeFacts, decode, entries_of, keys_of
from dredge.hashing import hash64
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.entries import Entry
from dredge.lakefs.files.sstable import WrittenTable, write_table

NAMESPACE = "s3://bucket/lake"
RELATIVE = Entry("data/a", AddressType.RELATIVE, 3, "c")
TWICE = Entry("data/a", AddressType.RELATIVE, 5, "c")
INSIDE = Entry(f"{NAMESPACE}/data/b", AddressType.FULL, 3, "c")
OUTSIDE = Entry("s3://other/data/c", AddressType.FULL, 4, "c")
OLD = Entry(f"{NAMESPACE}/data/d", AddressType.BY_PREFIX_DEPRECATED, 1, "c")


def written(*entries: Entry) -> WrittenTable:
    return write_table((b"p%d" % at, entry.value().encode()) for at, entry in enumerate(entries))


def hashes(*keys: str) -> list[int]:
    return sorted(hash64(pa.array(keys, pa.string())).tolist())


@pytest.mark.parametrize(
    ("entries", "keys", "outside", "sizes"),
    [
        ((RELATIVE, TWICE), ["data/a"], 0, [3, 5]),
        ((RELATIVE, INSIDE, OUTSIDE), ["data/a", "data/b"], 1, [3, 4]),
        ((INSIDE, OLD), ["data/b", "data/d", OLD.address], 0, [1, 3]),
        ((OUTSIDE, OUTSIDE), [], 2, [4]),
    ],
)
def test_all_that_entries_mean_in_the_namespace_is_kept_and_the_rest_counted(
    entries: tuple[Entry, ...], keys: list[str], outside: int, sizes: list[int]
) -> None:
    others = {"plain": written(RELATIVE), "full": written(INSIDE)}
    tables = {"x": written(*entries), **others}
    facts = {name: RangeFacts(table.count, b"", table.max_key) for name, table in tables.items()}
    files = [(f"_lakefs/{name}", table.data) for name, table in tables.items()]
    found, *more = decode(files, facts, NAMESPACE)
    assert (found.range_id, found.count, found.outside) == ("x", len(entries), outside)
    assert (found.addresses.tolist(), found.sizes.tolist()) == (hashes(*keys), sizes)
    assert [item.addresses.tolist() for item in more] == [hashes("data/a"), hashes("data/b")]
    assert sorted(set(keys_of(tables["x"].data, "x", NAMESPACE).to_pylist())) == keys


@pytest.mark.parametrize("promised", [RangeFacts(3, b"", b"p1"), RangeFacts(2, b"", b"p2")])
def test_a_range_that_is_not_what_its_metarange_promised_stops_the_run(promised: RangeFacts) -> None:
    files = [("_lakefs/x", written(RELATIVE, INSIDE).data)]
    assert len(list(decode(files, {"x": RangeFacts(2, b"", b"p1")}, NAMESPACE))) == 1
    with pytest.raises(FormatError):
        list(decode(files, {"x": promised}, NAMESPACE))


def test_paths_and_sizes_come_in_the_order_of_the_keys_and_all_that_were_promised() -> None:
    data = written(RELATIVE, OUTSIDE).data
    found = entries_of(data, "x", 2)
    assert found.paths.to_pylist() == [b"p0", b"p1"]
    assert np.array_equal(found.sizes, [3, 4])
    with pytest.raises(FormatError, match=r"\bx\b"):
        entries_of(data, "x", 3)
