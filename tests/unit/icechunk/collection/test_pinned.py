"""Pinned objects keep the objects that they need."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError
from dredge.hashing import hash64
from dredge.icechunk.collection.pinned import with_needs
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import encode_ids
from dredge.sets.live import LocatedSet
from tests.support.folder_store import LocalReader
from tests.support.icechunk_repo import Repo


def hashes(keys: Iterable[str]) -> list[int]:
    found: list[int] = sorted(hash64(pa.array(sorted(keys), pa.string())).tolist())
    return found


def held_by(run: Run, found: LocatedSet) -> list[int]:
    (part,) = found.hashes.shards.values()
    data = run.folder.read_bytes(part)
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def chunks_of(repo: Repo, manifest: str) -> set[str]:
    arrays = parse_manifest((repo.folder / manifest).read_bytes(), manifest).arrays
    ids = [encode_ids(array.ids[array.kind == NATIVE]).to_pylist() for array in arrays]
    return {f"chunks/{name}" for names in ids for name in names}


def needs_of(repo: Repo, snapshot: str) -> set[str]:
    path = [info.id for info in repo.library.ancestry(snapshot_id=snapshot)]
    manifests = {f"manifests/{info.id}" for node in path for info in repo.library.list_manifest_files(node)}
    chunks = {chunk for manifest in manifests for chunk in chunks_of(repo, manifest)}
    return (
        {f"{folder}/{node}" for node in path for folder in ("snapshots", "transactions")} | manifests | chunks
    )


def test_kept_snapshot_needs_its_path_their_logs_their_manifests_and_chunks_and_no_more(v1: Repo) -> None:
    run = v1.plan()
    expected = needs_of(v1, v1.ids["7"])
    assert sum(key.startswith("snapshots/") for key in expected) > 2
    found = with_needs(run, "bulk_delete/_kept", [f"snapshots/{v1.ids['7']}"])
    assert held_by(run, found) == hashes(expected)
    assert found.uri == run.folder.uri


def test_a_file_that_the_store_denies_is_not_passed_over(v1: Repo, stand_in: Any) -> None:
    def denied(_honest: object, _store: LocalReader, key: str) -> bytes:
        raise ConfigError(f"{key}: AccessDenied")

    run = v1.plan()
    stand_in(LocalReader.get, denied)
    with pytest.raises(ConfigError, match="AccessDenied"):
        with_needs(run, "bulk_delete/_kept", [f"snapshots/{v1.ids['7']}"], passes_archived=True)


def test_what_is_gone_or_cannot_be_read_is_kept_by_name_and_what_it_named_is_passed_over(v1: Repo) -> None:
    run, nobody = v1.plan(), "0" * 20
    tip, parent = [info.id for info in v1.library.ancestry(snapshot_id=v1.ids["7"])][:2]
    (manifest,) = [f"manifests/{info.id}" for info in v1.library.list_manifest_files(tip)]
    kept = [f"snapshots/{tip}", f"snapshots/{nobody}", f"manifests/{nobody}"]
    by_name = {f"{folder}/{node}" for node in (tip, nobody) for folder in ("snapshots", "transactions")}
    by_name.add(f"manifests/{nobody}")
    (v1.folder / manifest).write_bytes(b"torn")
    (v1.folder / "snapshots" / parent).unlink()
    found = with_needs(run, "bulk_delete/_kept", kept)
    expected = by_name | {manifest, f"snapshots/{parent}", f"transactions/{parent}"}
    assert held_by(run, found) == hashes(expected)
    (v1.folder / "snapshots" / tip).write_bytes(b"torn")
    assert held_by(run, with_needs(run, "bulk_delete/_kept", kept)) == hashes(by_name)
