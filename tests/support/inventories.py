"""Inventories of a lake in memory, as S3 writes them: manifest, checksum, and files of each format."""

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from dredge.storage import ObjectWriter, open_reader, open_writer
from tests.support.gc import World

COLUMNS = {
    "csv": ["Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate", "ETag"],
    "orc": [
        "bucket",
        "key",
        "version_id",
        "is_latest",
        "is_delete_marker",
        "size",
        "last_modified_date",
        "e_tag",
    ],
}
COLUMNS["parquet"] = COLUMNS["orc"]

type Row = dict[str, Any]


def bucket_of(world: World) -> str:
    return world.lake.namespace.removeprefix("memory://").partition("/")[0]


def rows_of(world: World) -> list[Row]:
    """The bucket's present objects, as rows of an inventory."""
    bucket = bucket_of(world)
    found = []
    for batch in open_reader(f"memory://{bucket}").list():
        for item in batch.to_pylist():
            found.append(
                {
                    "bucket": bucket,
                    "key": item["key"],
                    "version_id": "v",
                    "is_latest": True,
                    "is_delete_marker": False,
                    "size": item["size"],
                    "last_modified": item["last_modified"],
                    "etag": item["etag"],
                }
            )
    return found


@dataclass
class Inventory:
    """An inventory in a new bucket; change its parts, then write it."""

    world: World  # whose bucket it is of
    kind: str = "csv"  # "csv", "orc" or "parquet"
    rows: list[Row] = field(default_factory=list)  # of all files
    created: datetime | None = None  # when it was begun
    files: int = 2  # how many there are
    manifest: dict[str, Any] = field(default_factory=dict)  # members of the manifest to be replaced
    place: str = "2026-01-04T01-00Z"  # folder of the manifest

    def __post_init__(self) -> None:
        self.rows = self.rows or rows_of(self.world)
        self.created = self.created or self.world.lake.clock()

    @property
    def folder(self) -> str:
        return f"memory://inventory-of-{bucket_of(self.world)}/lake/all"

    @property
    def writer(self) -> ObjectWriter:
        return open_writer(self.folder)

    def write(self) -> str:
        """Write it; returns the URI of the manifest."""
        shares = [self.rows[number :: self.files] for number in range(self.files)]
        files = [self._file(number, share) for number, share in enumerate(shares)]
        assert self.created is not None
        value = {
            "sourceBucket": bucket_of(self.world),
            "destinationBucket": f"arn:aws:s3:::inventory-of-{bucket_of(self.world)}",
            "version": "2016-11-30",
            "creationTimestamp": str(int(self.created.timestamp() * 1000)),
            "fileFormat": {"csv": "CSV", "orc": "ORC", "parquet": "Parquet"}[self.kind],
            "fileSchema": ", ".join(COLUMNS[self.kind]),
            "files": files,
        } | self.manifest
        data = json.dumps(value).encode()
        self.writer.put(f"{self.place}/manifest.json", data)
        self.writer.put(f"{self.place}/manifest.checksum", hashlib.md5(data).hexdigest().encode())
        return f"{self.folder}/{self.place}/manifest.json"

    def _file(self, number: int, rows: Sequence[Row]) -> dict[str, Any]:
        data = ENCODERS[self.kind](rows)
        name = f"data/{number}.{'csv.gz' if self.kind == 'csv' else self.kind}"
        self.writer.put(name, data)
        return {"key": f"lake/all/{name}", "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()}


def _csv(rows: Sequence[Row]) -> bytes:
    lines = []
    for row in rows:
        cells = [row["bucket"], quote_plus(row["key"], safe="/"), row["version_id"], row["is_latest"]]
        when = row["last_modified"]
        time = "" if when is None else when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        cells += [row["is_delete_marker"], row["size"], time, row["etag"]]
        words = [
            "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)
            for cell in cells
        ]
        lines.append(",".join(f'"{word}"' for word in words) + "\n")
    return gzip.compress("".join(lines).encode())


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table with S3's names."""
    names = ["bucket", "key", "version_id", "is_latest", "is_delete_marker", "size", "last_modified", "etag"]
    types = [
        pa.string(),
        pa.string(),
        pa.string(),
        pa.bool_(),
        pa.bool_(),
        pa.int64(),
        pa.timestamp("ms"),
        pa.string(),
    ]
    columns = [
        pa.array([_plain(row[name]) for row in rows], kind) for name, kind in zip(names, types, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=COLUMNS["orc"])


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _parquet(rows: Sequence[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_of(rows), sink)
    return sink.getvalue()


def _orc(rows: Sequence[Row]) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table_of(rows), sink)
    return sink.getvalue()


ENCODERS: dict[str, Callable[[Sequence[Row]], bytes]] = {"csv": _csv, "parquet": _parquet, "orc": _orc}
