"""What live files name is read whole, and a file that is missing or says something else is damage."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.live_files import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import hashes_of
from dredge.storage import open_reader
from tests.support.icechunk_repo import Repo

NODES = ("1", "7", "14")


def refs_of(repo: Repo, node: str) -> dict[str, int]:
    """References by manifest, as the library says it."""
    return {info.id: info.num_chunk_refs for info in repo.library.list_manifest_files(repo.ids[node])}


def chunks_of(repo: Repo, manifest: str) -> list[int]:
    arrays = parse_manifest((repo.folder / "manifests" / manifest).read_bytes(), manifest).arrays
    return sorted(int(one) for array in arrays for one in hashes_of(array.ids[array.kind == NATIVE]))


def test_snapshots_name_the_manifests_that_the_library_sees(repo: Repo) -> None:
    asked = [repo.ids[node] for node in NODES]
    rows = list(snapshot_rows(open_reader(repo.uri), asked))
    assert {row.snapshot: dict(zip(row.manifests, row.refs, strict=True)) for row in rows} == {
        repo.ids[node]: refs_of(repo, node) for node in NODES
    }


def test_snapshots_that_agree_about_a_manifest_are_believed_and_others_are_damage() -> None:
    rows = [SnapshotRow("A", ("M", "N"), (1, 2)), SnapshotRow("B", ("N",), (2,))]
    assert refs_by_manifest(rows) == {"M": 1, "N": 2}
    with pytest.raises(FormatError, match="manifest N"):
        refs_by_manifest([*rows, SnapshotRow("C", ("M", "N"), (1, 3))])


@pytest.mark.parametrize("processors", [None, 1, 8])
def test_manifests_give_their_chunks_and_digests_where_somebody_asks(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, processors: int | None
) -> None:
    real = hashlib.md5

    def md5(data: bytes, *, usedforsecurity: bool = True) -> Any:
        assert not usedforsecurity, "some builds forbid it"
        return real(data, usedforsecurity=False)

    monkeypatch.setattr(hashlib, "md5", md5)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    refs = refs_of(v1, "1") | refs_of(v1, "7")
    digests: dict[str, str] = {}
    found = list(manifest_rows(open_reader(v1.uri), refs, digests=digests))
    assert [manifest for manifest, _ in found] == sorted(refs)
    assert {manifest: chunks.native.tolist() for manifest, chunks in found} == {
        manifest: chunks_of(v1, manifest) for manifest in refs
    }
    assert digests == {
        manifest: real((v1.folder / "manifests" / manifest).read_bytes()).hexdigest() for manifest in refs
    }
    assert len(list(manifest_rows(open_reader(v1.uri), refs))) == len(refs)


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
