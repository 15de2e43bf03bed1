"""Two reads of one snapshot that name other manifests: one of them was damaged, and nobody knows which."""

from __future__ import annotations

from pathlib import Path

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.test_optimized import commit


def test_what_either_read_of_a_snapshot_names_is_kept_by_the_runs_after_the_one_that_noticed(
    v1: Repo,
) -> None:
    """Only the run that stops sees both; the index tells those after it, which do not build on an earlier run."""
    commit(v1, 100)
    collect(v1.config(mode="auto"))
    place = v1.folder / "snapshots" / read_history(open_reader(v1.uri)).branches["main"]
    sound, before = place.read_bytes(), objects(v1.folder)
    name_another_manifest(place)
    with pytest.raises(FormatError, match="names other manifests than when an earlier run read it"):
        collect(v1.config(mode="auto"))
    report = collect(v1.config(mode="auto"))
    assert report["mode"] == "clean"
    assert any("what either names is kept" in warning for warning in report["warnings"])
    assert objects(v1.folder)["manifests"] == before["manifests"]
    assert objects(v1.folder)["chunks"] == before["chunks"]
    place.write_bytes(sound)
    assert contents(v1.library, branch="main")


def name_another_manifest(place: Path) -> None:
    """Let a snapshot's file name a manifest of others, with as many references, for one that only it names."""
    refs = {
        path: {info.id: info.refs for info in parse_snapshot(path.read_bytes(), path.name).manifests}
        for path in sorted(place.parent.iterdir())
    }
    own = refs.pop(place)
    others = {manifest: count for each in refs.values() for manifest, count in each.items()}
    pairs = [(one, other) for one in own for other in others if own[one] == others[other]]
    one, other = min(pair for pair in pairs if pair[0] not in others and pair[1] not in own)
    opened = open_file(place.read_bytes(), place.name, FileType.SNAPSHOT)
    place.write_bytes(close_file(opened.header, opened.body.replace(decode_id(one), decode_id(other))))
