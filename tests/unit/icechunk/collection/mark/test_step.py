"""A live file that cannot be read stops the mark with nothing deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo, main_manifest


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", [damage, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_unreadable_live_file_aborts_with_nothing_deleted(
    repo: Repo, kind: str, how: Callable[[Path], Any]
) -> None:  # E10
    if kind == "snapshots":
        path = repo.folder / kind / repo.ids["13"]
    else:
        tip = repo.library.lookup_branch("main")
        path = repo.folder / kind / next(iter(repo.library.list_manifest_files(tip))).id
    how(path)
    before = objects(repo.folder)
    with pytest.raises(FormatError):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_manifest_that_says_fewer_references_than_its_snapshot_is_refused(repo: Repo) -> None:
    path = main_manifest(repo.folder)
    tip = read_history(open_reader(repo.uri)).branches["main"]
    place = repo.folder / "snapshots" / tip
    opened = open_file(place.read_bytes(), tip, FileType.SNAPSHOT)
    (info,) = parse_snapshot(place.read_bytes(), tip).manifests
    body = bytearray(opened.body)
    counts = [at for at in range(0, len(body), 4) if body[at : at + 4] == info.refs.to_bytes(4, "little")]
    before = objects(repo.folder)
    changed = 0
    for at in counts:
        wrong = bytearray(body)
        wrong[at] ^= 32
        data = close_file(opened.header, bytes(wrong))
        try:
            if parse_snapshot(data, tip).manifests[0].refs == info.refs:
                continue
        except FormatError:
            continue
        changed += 1
        place.write_bytes(data)
        shutil.rmtree(repo.folder / "_dredge")
        with pytest.raises(FormatError, match="chunk references"):
            collect(repo.config())
    assert changed == 1
    assert objects(repo.folder) == before
    assert path.exists()


def test_manifest_left_without_arrays_is_refused(repo: Repo) -> None:
    path = main_manifest(repo.folder)
    body = (16).to_bytes(4, "little") + bytes(4) + bytes([6, 0, 16, 0, 4, 0, 0, 0])
    body += (8).to_bytes(4, "little") + decode_id(path.name)
    path.write_bytes(close_file(path.read_bytes()[:39], body))
    assert parse_manifest(path.read_bytes(), path.name).arrays == ()
    before = objects(repo.folder)
    with pytest.raises(FormatError, match=path.name):
        collect(repo.config())
    assert objects(repo.folder) == before
