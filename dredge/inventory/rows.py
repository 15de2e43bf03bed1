"""Downloads a file of an inventory and reads it in batches: the current objects of a namespace.

An inventory of a versioned bucket has a row for each version. Only the latest version counts; a delete marker does not.
"""

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.inventory.manifest import InventoryFile, Layout
from dredge.storage import open_reader
from dredge.storage.listing_schema import LISTING_SCHEMA


@contextmanager
def downloaded(file: InventoryFile) -> Iterator[str]:
    """Download a file of an inventory for the duration of the block, with credentials from the environment."""
    folder, _, name = file.uri.rpartition("/")
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with tempfile.NamedTemporaryFile(prefix="dredge-inventory-", suffix=f"-{name[-20:]}") as sink:
        try:
            with open_reader(folder).open_read(name) as stream:
                for chunk in stream:
                    digest.update(chunk)
                    size += len(chunk)
                    sink.write(chunk)
        except NotFoundError:
            raise FormatError(f"inventory file {file.uri} is missing. Nothing was deleted.") from None
        if size != file.size or (file.md5 and digest.hexdigest() != file.md5):
            raise FormatError(
                f"{file.uri} differs from its entry in the inventory's manifest: {size:,} bytes with MD5"
                f" {digest.hexdigest()} instead of {file.size:,} with {file.md5 or 'any'}. Nothing was deleted."
            )
        sink.flush()
        yield sink.name


BATCH_ROWS = 65_536
_CSV_BYTES = 8 << 20
_ROLES = {
    "bucket": "bucket",
    "key": "key",
    "size": "size",
    "lastmodifieddate": "last_modified",
    "lastmodified": "last_modified",
    "time": "last_modified",
    "etag": "etag",
    "islatest": "is_latest",
    "isdeletemarker": "is_delete_marker",
}
_NEEDED = ("key", "size", "last_modified")
_TIME = pa.timestamp("us", tz="UTC")


def read_rows(path: str, name: str, layout: Layout, counts: Counter[str]) -> Iterator[pa.RecordBatch]:
    """Read the objects of a namespace from a file of an inventory. `counts`: is increased by `inventory_rows` (of the
    file), `other_versions` (older versions and delete markers) and `unnamed_objects` (names without a valid key).
    Returns batches of `LISTING_SCHEMA`, none empty, keys relative to the namespace; `size` and `last_modified` may be
    null. Raises RefusedError: a row of another bucket."""
    try:
        for batch in _READERS[layout.kind](path, layout):
            counts["inventory_rows"] += batch.num_rows
            rows = _rows(batch, name, layout, counts)
            if rows.num_rows:
                yield rows
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"inventory file {name} cannot be read: {error}. Nothing was deleted.") from None


def _roles(names: Sequence[str], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for column in names:
        role = _ROLES.get(re.sub(r"[^a-z]", "", column.lower()))
        if role in found:
            raise FormatError(
                f"inventory file {name} has two columns for {role}: {found[role]} and {column}. Nothing was deleted."
            )
        if role is not None:
            found[role] = column
    if missing := [role for role in _NEEDED if role not in found]:
        raise FormatError(
            f"inventory file {name} lacks the columns {', '.join(missing)}; it has {', '.join(names)}. Nothing was"
            " deleted."
        )
    return found


def _parquet(path: str, layout: Layout) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        columns = list(_roles(file.schema_arrow.names, path).values())
        yield from file.iter_batches(BATCH_ROWS, columns=columns)


def _orc(path: str, layout: Layout) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    file = orc.ORCFile(path)
    columns = list(_roles(file.schema.names, path).values())
    for stripe in range(file.nstripes):
        whole = file.read_stripe(stripe, columns=columns)
        for first in range(0, whole.num_rows, BATCH_ROWS):
            yield whole.slice(first, BATCH_ROWS)


def _csv(path: str, layout: Layout) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    with pa.input_stream(path, compression="gzip" if _is_gzip(path) else None) as source:
        reading = csv.ReadOptions(column_names=layout.columns or None, block_size=_CSV_BYTES)
        # Everything is text at first: a type guessed from the first rows may not fit the later ones.
        names = layout.columns or _header(path)
        converting = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(_roles(names, path).values()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        yield from csv.open_csv(source, reading, csv.ParseOptions(newlines_in_values=True), converting)


def _header(path: str) -> list[str]:
    import csv

    with pa.input_stream(path, compression="gzip" if _is_gzip(path) else None) as source:
        first = source.read(1 << 16).decode("utf-8-sig", "replace").splitlines()[:1]
    return next(csv.reader(first), [])


def _is_gzip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


_READERS: dict[str, Callable[[str, Layout], Iterator[pa.RecordBatch]]] = {
    "parquet": _parquet,
    "orc": _orc,
    "csv": _csv,
}


def _rows(batch: pa.RecordBatch, name: str, layout: Layout, counts: Counter[str]) -> pa.RecordBatch:
    columns = {role: batch[column] for role, column in _roles(batch.schema.names, name).items()}
    _check_bucket(columns, name, layout)
    kept = _current(columns, batch.num_rows)
    counts["other_versions"] += batch.num_rows - pc.sum(kept).as_py()
    columns = {role: column.filter(kept) for role, column in columns.items()}
    keys = _keys(columns["key"], layout.quoted)
    counts["unnamed_objects"] += keys.null_count
    ours = pc.fill_null(pc.starts_with(keys, layout.prefix), False)
    # Some tools write the namespace itself as a folder object.
    ours = pc.and_(ours, pc.fill_null(pc.not_equal(keys, layout.prefix), False))
    keys = pc.utf8_slice_codeunits(keys.filter(ours), len(layout.prefix))
    etag = columns.get("etag", pa.nulls(len(ours), pa.string())).filter(ours)
    return pa.RecordBatch.from_arrays(
        [
            keys,
            pc.cast(columns["size"].filter(ours), pa.int64()),
            _times(columns["last_modified"].filter(ours)),
            pc.utf8_trim(pc.cast(etag, pa.string()), '"'),
        ],
        LISTING_SCHEMA.names,
    )


def _check_bucket(columns: dict[str, pa.Array], name: str, layout: Layout) -> None:
    if "bucket" not in columns:
        return
    foreign = pc.not_equal(pc.cast(columns["bucket"], pa.string()), layout.bucket)
    if pc.any(pc.fill_null(foreign, True)).as_py():
        raise RefusedError(
            f"inventory file {name} has rows of a bucket other than {layout.bucket}. Nothing was deleted."
        )


def _current(columns: dict[str, pa.Array], rows: int) -> pa.Array:
    """The rows with the latest version of an object; a missing value counts as no, and delete markers are left out."""
    kept = pa.array([True] * rows, pa.bool_())
    if "is_latest" in columns:
        kept = pc.and_(kept, pc.fill_null(pc.cast(columns["is_latest"], pa.bool_()), False))
    if "is_delete_marker" in columns:
        marker = pc.fill_null(pc.cast(columns["is_delete_marker"], pa.bool_()), False)
        kept = pc.and_(kept, pc.invert(marker))
    return kept


def _keys(column: pa.Array, quoted: bool) -> pa.Array:
    """Keys as text; null for an invalid key."""
    try:
        keys = pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        keys = pa.array([_text(value) for value in pc.cast(column, pa.binary()).to_pylist()], pa.string())
    if not quoted:
        return keys
    # In most keys only slashes are encoded. An encoded percent sign is %25, so this finds slashes only.
    keys = pc.replace_substring(keys, "%2F", "/")
    odd = pc.fill_null(pc.match_substring_regex(keys, "[%+]"), False)
    if not pc.any(odd).as_py():
        return keys
    decoded = [_decoded(value) for value in keys.filter(odd).to_pylist()]
    return pc.replace_with_mask(keys, odd, pa.array(decoded, pa.string()))


def _decoded(key: str) -> str | None:
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        return None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _times(column: pa.Array) -> pa.Array:
    """Times in UTC, also from a column without a time zone. Bare numbers have no known unit."""
    if pa.types.is_integer(column.type):
        raise FormatError("the inventory's times are numbers without a unit. Nothing was deleted.")
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        return pc.cast(pc.assume_timezone(column, "UTC"), _TIME, safe=False)
    return pc.cast(column, _TIME, safe=False)
