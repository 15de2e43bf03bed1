"""The manifest index, and files read into it."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import index
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    manifest_rows,
    read_manifest_rows,
    refs_by_manifest,
    snapshot_rows,
    write_manifest_rows,
)
from dredge.icechunk.collection.steps import collect, mark
from dredge.icechunk.format.manifests import NamedChunks
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.storage import ObjectWriter, open_reader, open_writer
from tests.support.icechunk import counts_of
from tests.support.icechunk_repo import Repo
from tests.support.index_parts import damaged

IDS = [np.array(values, np.uint64) for values in ([1, 5, 9], [], [2**64 - 1])]
ROWS = list(zip(("A", "B", "C"), map(NamedChunks, IDS), strict=True))


def _garbage(report: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        kind: {name: figure for name, figure in figures.items() if not name.startswith("found_now")}
        for kind, figures in report["kinds"].items()
    }


def test_damaged_index_is_read_again_from_the_repository(repo: Repo) -> None:
    good = collect(repo.config(dry_run=True))
    for path in (repo.folder / "_dredge" / "index" / "parts").iterdir():
        path.write_bytes(damaged(path.read_bytes()))
    again = collect(repo.config(dry_run=True))
    assert _garbage(again) == _garbage(good)
    assert counts_of(again, "mark")["manifests_read"] == 9
    for path in (repo.folder / "_dredge" / "index" / "heads").iterdir():
        path.write_bytes(b"{}")
    assert _garbage(collect(repo.config(dry_run=True))) == _garbage(good)


def test_index_of_an_earlier_reader_is_not_believed(repo: Repo) -> None:
    collect(repo.config(dry_run=True))
    heads = repo.folder / "_dredge" / "index" / "heads"
    for path in list(heads.iterdir()):
        value = json.loads(path.read_bytes())
        del value["format"]
        data = json.dumps(value, sort_keys=True).encode()
        path.unlink()
        stem = path.stem.rpartition("-")[0]
        (heads / f"{stem}-{hashlib.sha256(data).hexdigest()}.json").write_bytes(data)
    run = repo.plan(dry_run=True)
    assert mark(run, LocalRunner()).counts["manifests_read"] == 9


@pytest.mark.parametrize("place", [0, 8, 12, -1])
def test_part_with_a_changed_byte_is_refused(place: int) -> None:
    state = open_writer(f"memory://test-sets-changed-{place}")
    part = write_manifest_rows(state, "x", ROWS)
    data = bytearray(state.get(part.name))
    data[place] ^= 1
    state.put(part.name, bytes(data))
    with pytest.raises(FormatError):
        read_manifest_rows(state, part)


@pytest.mark.parametrize(
    "data", [b"", b"PAR1 of an older release", bytes(8) + bytes(16), bytes(8) + bytes(3)]
)
def test_part_of_another_layout_is_refused(data: bytes) -> None:
    state = open_writer(f"memory://test-sets-layout-{len(data)}")
    state.put("p", data)
    part = PartInfo("p", 3, len(data), hashlib.sha256(data).hexdigest())
    with pytest.raises(FormatError):
        read_manifest_rows(state, part)


def test_part_that_lacks_ids_of_a_manifest_is_refused() -> None:
    state, names = open_writer("memory://test-sets-lacks"), b'[["A", 2, 1], ["B", 1, 0]]  '
    for count in (3, 5):
        data = len(names).to_bytes(8, "little") + names + bytes(8 * count)
        state.put("p", data)
        with pytest.raises(FormatError):
            read_manifest_rows(state, PartInfo("p", 2, len(data), hashlib.sha256(data).hexdigest()))


def test_part_with_fewer_manifests_than_were_written_is_refused() -> None:
    state = open_writer("memory://test-sets-fewer")
    part = replace(write_manifest_rows(state, "x", ROWS), rows=4)
    with pytest.raises(FormatError):
        read_manifest_rows(state, part)


def head_of(state: ObjectWriter, label: str) -> str:
    (found,) = [info.key for info in state.list_level("index/heads/").objects if f"/{label}-" in info.key]
    return found


def test_what_either_of_two_reads_of_a_snapshot_names_counts_whichever_head_is_newer() -> None:
    state = open_writer("memory://test-index-newer")
    reads = {"older": (("L", "M"), (1, 2)), "newer": (("M", "N"), (3, 4))}  # run ids sort newest first
    for label, (manifests, refs) in reads.items():
        rows = [SnapshotRow("A", manifests, refs), SnapshotRow("B", ("M",), (2,))]
        ManifestIndex().add(state, label, [index.write_snapshot_rows(state, label, rows)], [])
    loaded = ManifestIndex.load(state)
    assert [part.name for part in loaded.snapshot_parts] == [
        "index/parts/older.parquet",
        "index/parts/newer.parquet",
    ]
    row = loaded.snapshots(state)["A"]
    assert dict(zip(row.manifests, row.refs, strict=True)) == {"L": 1, "M": 2, "N": 4}
    assert loaded.heads == [head_of(state, "older"), head_of(state, "newer")]


def test_head_that_was_changed_or_is_of_another_version_is_left_out_and_told() -> None:
    state = open_writer("memory://test-index-left-out")
    part = write_manifest_rows(state, "x", ROWS)
    for label in ("a", "b", "c"):
        ManifestIndex().add(state, label, [], [(replace(part, name=label), ["A", label])])
    head = state.get(head_of(state, "a"))
    state.put(head_of(state, "a"), head.replace(b'["A", "a"]', b'["Z", "a"]'))
    assert state.get(head_of(state, "a")) != head
    other = json.dumps({"format": 1, "snapshots": [], "manifests": []}).encode()
    state.put(f"index/heads/d-{hashlib.sha256(other).hexdigest()}.json", other)
    loaded = ManifestIndex.load(state)
    assert loaded.heads == [head_of(state, "c"), head_of(state, "b")]
    assert loaded.unread_heads == {head_of(state, "a"), head_of(state, "d")}
    assert loaded.manifests_of == {"b": ["A", "b"], "c": ["A", "c"]}
    assert loaded.manifest_parts == {name: replace(part, name=name) for name in ("b", "c")}
    loaded.drop("b")
    loaded.drop("b")
    assert (set(loaded.manifests_of), set(loaded.manifest_parts)) == ({"c"}, {"c"})


def test_part_of_snapshots_that_is_gone_or_has_other_rows_is_left_out() -> None:
    state = open_writer("memory://test-index-snapshots")
    whole = index.write_snapshot_rows(state, "x", [SnapshotRow("A", ("M", "N"), (1, 2))])
    other = index.write_snapshot_rows(state, "y", [SnapshotRow("B", (), ())])
    assert index.read_snapshot_rows(state, whole) == [SnapshotRow("A", ("M", "N"), (1, 2))]
    with pytest.raises(FormatError):
        index.read_snapshot_rows(state, replace(whole, rows=2))
    with pytest.raises(FormatError, match="is missing"):
        index.read_snapshot_rows(state, replace(whole, name="z"))
    loaded = ManifestIndex(snapshot_parts=[replace(whole, rows=2), replace(whole, name="z"), other])
    assert loaded.snapshots(state) == {"B": SnapshotRow("B", (), ())}


def refs_of(repo: Repo, node: str) -> dict[str, int]:
    return {info.id: info.num_chunk_refs for info in repo.library.list_manifest_files(repo.ids[node])}


def test_snapshots_that_agree_about_a_manifest_are_believed_and_others_are_damage() -> None:
    rows = [SnapshotRow("A", ("M", "N"), (1, 2)), SnapshotRow("B", ("N",), (2,))]
    assert refs_by_manifest(rows) == {"M": 1, "N": 2}
    with pytest.raises(FormatError, match="manifest N"):
        refs_by_manifest([*rows, SnapshotRow("C", ("M", "N"), (1, 3))])


def test_manifest_that_holds_another_number_of_references_is_damage(v1: Repo) -> None:
    refs = {manifest: count + 1 for manifest, count in refs_of(v1, "7").items()}
    with pytest.raises(FormatError):
        list(manifest_rows(open_reader(v1.uri), refs))


def test_live_file_that_is_missing_is_damage_not_a_shorter_answer(v1: Repo) -> None:
    reader = open_reader(v1.uri)
    with pytest.raises(FormatError):
        list(snapshot_rows(reader, [v1.ids["7"], "0" * 20]))
    with pytest.raises(FormatError):
        list(manifest_rows(reader, refs_of(v1, "7") | {"0" * 20: 1}))
