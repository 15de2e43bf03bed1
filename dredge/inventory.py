"""Reads an inventory of the bucket instead of listing it: S3 Inventory, or a table made by the user.

It must be complete, recent, and of the collected bucket. An inventory describes the past. So unreferenced objects from
it are looked up in the store before they become candidates (by each collector in its own way), like objects known only
from an earlier run; see `docs/safety.md`.

    <folder>/2026-01-04T01-00Z/manifest.json        written by S3 Inventory, with the MD5 of each file
                               manifest.checksum    the MD5 of the manifest; written last
    <folder>/data/….csv.gz | ….orc | ….parquet

A user's table has no manifest: a parquet, ORC or CSV file with a header, or a folder of such files, with the columns
`key` (complete, from the root of the bucket), `size`, `last_modified`, and optionally `etag` and `bucket`.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html

An inventory of a versioned bucket has a row for each version. Only the latest version counts; a delete marker does not.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError
from dredge.storage import ObjectInfo, StorageOptions, open_reader
from dredge.storage.listing_schema import LISTING_SCHEMA

log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The inventory of a run.

    Attributes:
        uri: of its manifest.json, or of a table or a folder of tables.
        created_at: start of its creation by the store, from the manifest; None for a table.
        digest: of the manifest, or of the tables' names, sizes and ETags; another digest is another inventory.
    """

    uri: str
    created_at: datetime | None
    digest: str


type FileFormat = Literal["csv", "orc", "parquet"]

MANIFEST, CHECKSUM = "manifest.json", "manifest.checksum"
_VERSION = "2016-11-30"
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}Z/$")
_KINDS: dict[str, FileFormat] = {".csv": "csv", ".csv.gz": "csv", ".orc": "orc", ".parquet": "parquet"}
_MD5 = re.compile(r"[0-9a-f]{32}")
_CLOCKS = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFile:
    """A file of an inventory; a payload.

    Attributes:
        md5: of its bytes, in hexadecimal digits; "" without a manifest.
    """

    uri: str
    size: int
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The format of the files of an inventory; a payload.

    Attributes:
        columns: names of the columns of CSV files without a header; empty for files with column names.
        bucket: of the rows; "" for a store without buckets.
        prefix: of the keys of the namespace, "/" at the end.
    """

    kind: FileFormat
    bucket: str
    prefix: str
    columns: list[str] = field(default_factory=list)
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """A checked inventory; the bytes of its files are not read yet."""

    source: Inventory
    layout: Layout
    files: list[InventoryFile]


def plan_inventory(
    uri: str | None, namespace: str, now: datetime, days_max: float, options: StorageOptions | None = None
) -> Inventory | None:
    """Find the inventory of a run; None without a URI. Raises as `find_inventory`."""
    if uri is None:
        return None
    found = find_inventory(uri, namespace, now, timedelta(days=days_max), options).source
    log.info("%s is read from inventory %s, begun %s", namespace, found.uri, found.created_at)
    return found


def latest_cutoff(now: datetime, min_age_seconds: float, inventory: Inventory | None) -> datetime:
    """Return the cutoff of a run; objects newer than an inventory wait for the next one."""
    latest = now - timedelta(seconds=min_age_seconds)
    return latest if inventory is None or inventory.created_at is None else min(latest, inventory.created_at)


def find_inventory(
    uri: str, namespace: str, now: datetime, age_max: timedelta, options: StorageOptions | None = None
) -> Contents:
    """Find the inventory at a URI.

    Args:
        uri: of a manifest.json, of the folder with the inventories of all dates (the newest complete one is read), of a
            table, or of a folder of tables.

    Raises:
        RefusedError: another bucket, too old, in the future, or incomplete.
    """
    if uri.endswith(f"/{MANIFEST}"):
        return _by_manifest(uri, namespace, now, age_max, options)
    if (kind := _kind(uri)) is not None:
        folder, _, name = uri.rpartition("/")
        return _tables(uri, [(folder, open_reader(folder, options).stat(name))], kind, namespace)
    folder = uri.rstrip("/")
    level = open_reader(folder, options).list_level("")
    for dated in sorted((name for name in level.folders if _DATED.fullmatch(name)), reverse=True):
        found = {info.key for info in open_reader(f"{folder}/{dated}", options).list_level("").objects}
        if {MANIFEST, CHECKSUM} <= found:  # the checksum is written last
            return _by_manifest(f"{folder}/{dated}{MANIFEST}", namespace, now, age_max, options)
    kinds = {kind for info in level.objects if (kind := _kind(info.key)) is not None}
    if len(kinds) != 1:
        raise ConfigError(
            f"inventory {uri} is neither a {MANIFEST}, nor a folder with inventories by date, nor tables of one kind"
            f" ({', '.join(_KINDS)})"
        )
    (kind,) = kinds
    return _tables(
        folder, [(folder, info) for info in level.objects if _kind(info.key) == kind], kind, namespace
    )


def _kind(name: str) -> FileFormat | None:
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)


def _place(namespace: str) -> tuple[str, str]:
    bucket, _, path = namespace.partition("://")[2].partition("/")
    prefix = path.removesuffix("/")
    return bucket, f"{prefix}/" if prefix else ""


def _by_manifest(
    uri: str, namespace: str, now: datetime, age_max: timedelta, options: StorageOptions | None
) -> Contents:
    reader = open_reader(uri.removesuffix(f"/{MANIFEST}"), options)
    try:
        data, checksum = reader.get(MANIFEST), reader.get(CHECKSUM).decode("ascii", "replace").strip()
    except NotFoundError as error:
        raise RefusedError(
            f"inventory {uri} is not complete: {error}. S3 writes {CHECKSUM} last. Nothing was deleted. Name a"
            " complete inventory, or none."
        ) from None
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != checksum:
        raise FormatError(f"inventory {uri} does not match the checksum in {CHECKSUM}. Nothing was deleted.")
    try:
        return _read_manifest(uri, data, namespace, now, age_max)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise FormatError(
            f"inventory {uri} is not a manifest of S3 Inventory: {type(error).__name__} {error}. Nothing was deleted."
        ) from None


def _read_manifest(uri: str, data: bytes, namespace: str, now: datetime, age_max: timedelta) -> Contents:
    value: Mapping[str, Any] = json.loads(data)
    bucket, prefix = _place(namespace)
    source = str(value["sourceBucket"]).rpartition(":::")[2]
    if source != bucket:
        raise RefusedError(
            f"inventory {uri} is of bucket {source}, and the repository is in {bucket}. Nothing was deleted."
        )
    if value["version"] != _VERSION:
        raise FormatError(
            f"inventory {uri} is of version {value['version']!r}; {_VERSION} is known. Nothing was deleted."
        )
    created = datetime.fromtimestamp(int(value["creationTimestamp"]) / 1000, UTC)
    _check_age(uri, created, now, age_max)
    kind = str(value["fileFormat"]).lower()
    if kind not in ("csv", "orc", "parquet"):
        raise FormatError(f"inventory {uri} has files of format {kind!r}. Nothing was deleted.")
    columns = [name.strip() for name in value["fileSchema"].split(",")] if kind == "csv" else []
    scheme, _, place = uri.partition("://")
    home = f"{scheme}://{place.partition('/')[0]}"
    files = [_file(home, item) for item in value["files"]]
    if not files:
        raise RefusedError(f"inventory {uri} names no files. Nothing was deleted.")
    layout = Layout(kind=kind, bucket=bucket, prefix=prefix, columns=columns, quoted=kind == "csv")  # type: ignore[arg-type]
    return Contents(
        Inventory(uri=uri, created_at=created, digest=hashlib.sha256(data).hexdigest()), layout, files
    )


def _file(home: str, item: Mapping[str, Any]) -> InventoryFile:
    md5 = str(item["MD5checksum"]).lower()
    if not _MD5.fullmatch(md5):
        raise ValueError(f"MD5checksum {md5!r} of {item['key']!r}")
    return InventoryFile(uri=f"{home}/{item['key']}", size=int(item["size"]), md5=md5)


def _check_age(uri: str, created: datetime, now: datetime, age_max: timedelta) -> None:
    if created > now + _CLOCKS:
        raise RefusedError(
            f"inventory {uri} was begun at {created:%Y-%m-%d %H:%M} UTC by its manifest, in the future of the store's"
            " clock. Nothing was deleted."
        )
    if now - created > age_max:
        raise RefusedError(
            f"inventory {uri} was begun at {created:%Y-%m-%d %H:%M} UTC; the accepted age is {age_max.days} days."
            " Nothing was deleted. Name a newer inventory, or none to list the store."
        )


def _tables(uri: str, found: Sequence[tuple[str, ObjectInfo]], kind: FileFormat, namespace: str) -> Contents:
    names = [[info.key, info.size, info.etag] for _, info in found]
    digest = hashlib.sha256(json.dumps(sorted(names, key=str)).encode()).hexdigest()
    files = [InventoryFile(uri=f"{folder}/{info.key}", size=info.size, md5="") for folder, info in found]
    bucket, prefix = _place(namespace)
    return Contents(
        Inventory(uri=uri, created_at=None, digest=digest),
        Layout(kind=kind, bucket=bucket, prefix=prefix),
        files,
    )


@contextmanager
def downloaded(file: InventoryFile) -> Iterator[str]:
    """Download a file of an inventory for the duration of the block; tasks reach the store by their environment."""
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
            raise FormatError(f"{file.uri} of the inventory is missing. Nothing was deleted.") from None
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
    """Read the objects of a namespace from a file of an inventory.

    Args:
        counts: is increased by `inventory_rows` (of the file), `other_versions` (older versions and delete markers) and
            `unnamed_objects` (names without a valid key).

    Returns:
        Batches of `LISTING_SCHEMA`, none empty, keys relative to the namespace; `size` and `last_modified` may be null.

    Raises:
        RefusedError: a row of another bucket.
    """
    try:
        for batch in _READERS[layout.kind](path, layout):
            counts["inventory_rows"] += batch.num_rows
            rows = _rows(batch, name, layout, counts)
            if rows.num_rows:
                yield rows
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name} of the inventory cannot be read: {error}. Nothing was deleted.") from None


def _roles(names: Sequence[str], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for column in names:
        role = _ROLES.get(re.sub(r"[^a-z]", "", column.lower()))
        if role in found:
            raise FormatError(
                f"{name} of the inventory has several columns for {role}: {found[role]} and {column}. Nothing"
                " was deleted."
            )
        if role is not None:
            found[role] = column
    if missing := [role for role in _NEEDED if role not in found]:
        raise FormatError(
            f"{name} of the inventory has no column {', '.join(missing)}; it has {', '.join(names)}. Nothing was"
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
            f"{name} of the inventory has rows of another bucket than {layout.bucket}. Nothing was deleted."
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
        raise FormatError("the inventory has bare numbers for times. Nothing was deleted.")
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        return pc.cast(pc.assume_timezone(column, "UTC"), _TIME, safe=False)
    return pc.cast(column, _TIME, safe=False)
