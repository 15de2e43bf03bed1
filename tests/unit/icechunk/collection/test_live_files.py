"""What live files name is read whole, and a file that is missing or says something else is damage."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.index import SnapshotRow, manifest_rows, refs_by_manifest, snapshot_rows
from dredge.storage import open_reader
from tests.support.icechunk_repo import Repo


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
