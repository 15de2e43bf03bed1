"""Find an inventory, and check that it is complete, recent, and of the collected bucket.

    <folder>/2026-01-04T01-00Z/manifest.json        written by S3 Inventory, with the MD5 of each file
                               manifest.checksum    the MD5 of the manifest; written last
    <folder>/data/….csv.gz | ….orc | ….parquet

A user's table has no manifest: a parquet, ORC or CSV file with a header, or a folder of such files, with the columns
`key` (complete, from the root of the bucket), `size`, `last_modified`, and optionally `etag` and `bucket`.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct, field

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError
from dredge.storage import ObjectInfo, StorageOptions, open_reader

log = logging.getLogger("dredge")


class Inventory(Struct, frozen=True, kw_only=True):
    """The inventory of a run."""

    uri: str  # of its manifest.json, or of a table or a folder of tables
    created_at: datetime | None  # start of its creation by the store, from the manifest; None for a table
    # of the manifest, or of the tables' names, sizes and ETags; another digest is another inventory
    digest: str


type FileFormat = Literal["csv", "orc", "parquet"]

MANIFEST, CHECKSUM = "manifest.json", "manifest.checksum"
_VERSION = "2016-11-30"
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}Z/$")
_KINDS: dict[str, FileFormat] = {".csv": "csv", ".csv.gz": "csv", ".orc": "orc", ".parquet": "parquet"}
_MD5 = re.compile(r"[0-9a-f]{32}")
_CLOCKS = timedelta(minutes=5)


class InventoryFile(Struct, frozen=True, kw_only=True):
    """A file of an inventory; a payload."""

    uri: str
    size: int
    md5: str  # of its bytes, in hexadecimal digits; "" without a manifest


class Layout(Struct, frozen=True, kw_only=True):
    """The format of the files of an inventory; a payload."""

    kind: FileFormat
    bucket: str  # of the rows; "" for a store without buckets
    prefix: str  # of the keys of the namespace, "/" at the end
    # names of the columns of CSV files without a header; empty for files with column names
    columns: list[str] = field(default_factory=list)
    quoted: bool = False


class Contents(Struct, frozen=True):
    """A checked inventory whose files are not read yet."""

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
    log.info("the objects of %s are read from inventory %s, begun %s", namespace, found.uri, found.created_at)
    return found


def find_again(
    planned: Inventory | None, namespace: str, now: datetime, options: StorageOptions | None
) -> Contents:
    """Find the inventory of a plan again, whose age the plan has checked. Raises RefusedError: it was replaced."""
    assert planned is not None
    found = find_inventory(planned.uri, namespace, now, timedelta.max, options)
    if found.source != planned:
        raise RefusedError(
            f"inventory {planned.uri} was replaced since the run was planned. Nothing was deleted. Start a new run."
        )
    return found


def find_inventory(
    uri: str, namespace: str, now: datetime, age_max: timedelta, options: StorageOptions | None = None
) -> Contents:
    """Find the inventory at a URI. `uri`: of a manifest.json, of the folder with the inventories of all dates (the
    newest complete one is read), of a table, or of a folder of tables. Raises RefusedError: the inventory is of another
    bucket, too old, from the future, or incomplete."""
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
            f"inventory {uri} is not complete: {error}. Nothing was deleted. Use a complete inventory, or none: S3"
            f" writes {CHECKSUM} last."
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
            f"inventory {uri} is of bucket {source}, but the repository is in {bucket}. Nothing was deleted."
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
        raise RefusedError(f"inventory {uri} lists no files. Nothing was deleted.")
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
            f"inventory {uri} states {created:%Y-%m-%d %H:%M} UTC as its start, which is in the future by the store's"
            " clock. Nothing was deleted."
        )
    if now - created > age_max:
        raise RefusedError(
            f"inventory {uri} was begun at {created:%Y-%m-%d %H:%M} UTC; the maximum age is {age_max.days} days."
            " Nothing was deleted. Use a newer inventory, or none to list the store."
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
