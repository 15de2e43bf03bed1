"""`dredge inspect` shows whole, verified files, and nothing of others."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dredge.cli import main
from dredge.storage import open_writer
from tests.support.lakefs_tables import CORRUPT, Fixture, fixture, fixtures, key_bytes
from tests.support.memory_store import forget_memory_store


class Shown:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def rows(self) -> list[Any]:
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def dredge(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Shown:
        with pytest.raises(SystemExit) as ended:
            main(["inspect", *words])
        out, err = capsys.readouterr()
        return Shown(int(ended.value.code or 0), out, err)

    return run


SMALL_RANGES = [item for item in fixtures("ranges", dumps=False) if item.name != "range_large"]


@pytest.mark.parametrize("item", SMALL_RANGES, ids=lambda item: item.name)
def test_table_shows_every_entry_of_a_servers_range(item: Fixture, dredge: Any) -> None:
    rows = dredge("table", str(item.path), "--json").rows
    assert len(rows) == len(item.records)
    for row, truth in zip(rows, item.records, strict=True):
        assert base64.b64decode(row["key_base64"]) == bytes.fromhex(row["key_hex"]) == key_bytes(truth["key"])
        assert row["key"] == truth["key"]
        assert base64.b64decode(row["identity_base64"]).hex() == row["identity_hex"] == truth["identity"]
        assert row["last_modified_unix"] == truth["last_modified"]
        for name in ("address", "address_type", "size", "etag", "metadata", "content_type"):
            assert row[name] == truth[name]
    addresses = dredge("addresses", str(item.path)).rows
    assert addresses == [truth["address"] for truth in item.records]
    both = dredge("addresses", "--json", str(item.path)).rows
    assert both == [{name: row[name] for name in ("address", "address_type")} for row in item.records]


@pytest.mark.parametrize("item", fixtures("metaranges", dumps=False), ids=lambda item: item.name)
def test_table_shows_every_range_of_a_servers_metarange(item: Fixture, dredge: Any) -> None:
    rows = dredge("table", str(item.path), "--json").rows
    assert len(rows) == len(item.records)
    for row, truth in zip(rows, item.records, strict=True):
        for name in ("key", "range_id", "min_key", "max_key", "estimated_size", "count"):
            assert row[name] == truth[name]
        assert base64.b64decode(row["identity_base64"]).decode() == truth["range_id"]


@pytest.mark.parametrize("item", [i for i in fixtures() if i.dump], ids=lambda item: item.name)
def test_dumps_are_shown_raw_with_their_entity_and_have_no_addresses(item: Fixture, dredge: Any) -> None:
    rows = dredge("table", str(item.path), "--json").rows
    assert {row["entity"] for row in rows} <= {"commit", "branch", "tag"}
    if item.kind == "ranges":
        assert [row["value_base64"] for row in rows] == [truth["data_b64"] for truth in item.records]
        assert not any("address" in row for row in rows)
    refused = dredge("addresses", str(item.path))
    assert (refused.code, refused.out) == (5, "")
    assert "refs dump" in refused.err


@pytest.mark.parametrize("path", sorted(CORRUPT.glob("*.sst")), ids=lambda path: path.stem)
@pytest.mark.parametrize("how", [("table", "--json"), ("table",), ("addresses",)])
def test_of_a_damaged_file_nothing_is_shown_but_the_error(
    path: Path, how: tuple[str, ...], dredge: Any
) -> None:
    shown = dredge(*how, str(path))
    if path.stem == "other_table":
        assert shown.code == 0
        return
    assert (shown.code, shown.out) == (5, "")
    assert shown.err.startswith(f"dredge: {path}: ")
    assert "Traceback" not in shown.err


def test_a_file_named_by_an_id_must_hold_that_table(dredge: Any, tmp_path: Path) -> None:
    right, wrong = tmp_path / fixture("range_one_record").id, tmp_path / fixture("range_large").id
    for path in (right, wrong):
        shutil.copy(fixture("range_one_record").path, path)
    assert dredge("table", str(right)).code == 0
    refused = dredge("table", str(wrong))
    assert (refused.code, refused.out) == (5, "")
    assert fixture("range_large").id in refused.err


def test_files_are_read_by_uri(dredge: Any, tmp_path: Path) -> None:
    item = fixture("range_one_record")
    open_writer("memory://inspect").put("_lakefs/a b", item.data)
    shutil.copy(item.path, tmp_path / "a b")
    try:
        for uri in ("memory://inspect/_lakefs/a b", f"file://{tmp_path}/a b", f"{tmp_path}/a b"):
            assert dredge("addresses", uri).rows == [item.records[0]["address"]]
        for uri in ("memory://inspect/_lakefs/none", f"file://{tmp_path}/none", f"{tmp_path}/none"):
            missing = dredge("table", uri)
            assert (missing.code, missing.out) == (6, "")
            assert "none" in missing.err
    finally:
        forget_memory_store("inspect")
