"""What a file of an inventory says of a namespace, whatever its format."""

import gzip
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.inventory.manifest import Layout
from dredge.inventory.rows import read_rows
from tests.support.inventories import COLUMNS, ENCODERS, Row

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
type Kind = Literal["csv", "orc", "parquet"]
KINDS: tuple[Kind, ...] = ("csv", "orc", "parquet")


def row(key: str, **changes: Any) -> Row:
    usual = {"bucket": "b", "version_id": "v", "is_latest": True, "is_delete_marker": False}
    return usual | {"key": key, "size": 5, "last_modified": WHEN, "etag": "e"} | changes


def read(
    tmp_path: Path, kind: Kind, rows: list[Row] | bytes, **layout: Any
) -> tuple[list[Row], Counter[str]]:
    path = tmp_path / "file"
    path.write_bytes(rows if isinstance(rows, bytes) else ENCODERS[kind](rows))
    columns = COLUMNS["csv"] if kind == "csv" else []
    usual = {"kind": kind, "bucket": "b", "prefix": "repo/", "columns": columns, "quoted": kind == "csv"}
    counts: Counter[str] = Counter()
    found = [
        item
        for batch in read_rows(str(path), "file", Layout(**(usual | layout)), counts)
        for item in batch.to_pylist()
    ]
    return found, counts


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_the_namespace_are_given_as_a_listing_gives_them(tmp_path: Path, kind: Kind) -> None:
    rows = [
        row("repo/data/a"),
        row("repo/"),
        row("repository/data/a"),
        row("other/repo/data/b"),
        row("repo/x"),
    ]
    found, counts = read(tmp_path, kind, rows)
    assert found == [
        {"key": "data/a", "size": 5, "last_modified": WHEN, "etag": "e"},
        {"key": "x", "size": 5, "last_modified": WHEN, "etag": "e"},
    ]
    assert counts["inventory_rows"] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_versions_only_the_latest_counts_and_none_where_it_is_a_delete_marker(
    tmp_path: Path, kind: Kind
) -> None:
    rows = [
        row("repo/data/a", size=1, is_latest=False),
        row("repo/data/a", size=2),
        row("repo/data/gone", is_latest=False),
        row("repo/data/gone", size=None, is_delete_marker=True, etag=None),
        row("repo/data/untold", is_latest=None),
    ]
    found, counts = read(tmp_path, kind, rows)
    assert [(item["key"], item["size"]) for item in found] == [("data/a", 2)]
    assert counts["other_versions"] == 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a b", "a+b", "a%b", "a%20b", "a%2Fb", "ü/ß", "a,b\"c'", "x/../y", "//"])
def test_odd_keys_are_read_as_they_are(tmp_path: Path, kind: Kind, name: str) -> None:
    found, _ = read(tmp_path, kind, [row("repo/data/plain"), row(f"repo/data/{name}")])
    assert [item["key"] for item in found] == ["data/plain", f"data/{name}"]


def test_a_key_that_is_no_text_is_counted_and_left_alone(tmp_path: Path) -> None:
    line = '"b","repo/data/%FF","v","true","false","5","2026-01-02T03:04:05.678Z","e"\n'
    found, counts = read(tmp_path, "csv", gzip.compress(line.encode()))
    assert found == []
    assert counts["unnamed_objects"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_bucket_are_refused(tmp_path: Path, kind: Kind) -> None:
    with pytest.raises(RefusedError):
        read(tmp_path, kind, [row("repo/data/a"), row("repo/data/b", bucket="c")])


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_none_is_not_believed(tmp_path: Path, kind: Kind) -> None:
    with pytest.raises(FormatError):
        read(tmp_path, kind, b"\x1f\x8bnothing of the kind")


def test_a_table_needs_only_keys_sizes_and_times(tmp_path: Path) -> None:
    text = b"Key,Size,last-modified\nrepo/data/a b+c%20,7,2026-01-02T03:04:05Z\n"
    found, _ = read(tmp_path, "csv", text, columns=[], quoted=False)
    assert found == [
        {"key": "data/a b+c%20", "size": 7, "last_modified": WHEN.replace(microsecond=0), "etag": None}
    ]


def test_a_size_that_is_no_number_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        read(
            tmp_path,
            "csv",
            b"key,size,time\nrepo/data/a,big,2026-01-02T03:04:05Z\n",
            columns=[],
            quoted=False,
        )


def test_columns_of_which_nobody_knows_which_one_counts_are_not_believed(tmp_path: Path) -> None:
    columns = {"key": ["repo/data/a"], "size": [1], "last_modified": [WHEN]}
    path = tmp_path / "table.parquet"
    layout = Layout(kind="parquet", bucket="b", prefix="repo/")
    for more in ({"Key": ["repo/data/b"]}, {"time": [WHEN]}):
        pq.write_table(pa.table({**columns, **more}), path)
        with pytest.raises(FormatError):
            list(read_rows(str(path), "table", layout, Counter()))
    twice = pa.table([*columns.values(), columns["key"]], names=[*columns, "key"])
    pq.write_table(twice, path)
    with pytest.raises(FormatError):
        list(read_rows(str(path), "table", layout, Counter()))
    pq.write_table(pa.table({**columns, "last_modified": [1_700_000_000]}), path)
    with pytest.raises(FormatError):
        list(read_rows(str(path), "table", layout, Counter()))
