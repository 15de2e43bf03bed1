"""A million chunk references a second and core, and big manifests in bounded memory."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from dredge.icechunk.format.manifests import NATIVE, named_chunks, parse_manifest
from dredge.icechunk.ids import hashes_of
from tests.support.icechunk import Graph, build, local_storage, quiet
from tests.support.icechunk_manifests import manifest_file

COUNT = 400_000
IDS = np.random.default_rng(5).integers(0, 256, (COUNT, 12), dtype=np.uint8)


def test_a_million_references_a_second_and_core() -> None:
    name, data = manifest_file(IDS)
    warm = manifest_file(IDS[:10])[::-1]
    parse_manifest(*warm)
    named_chunks(*warm)
    started = time.process_time()
    hashes = named_chunks(data, name).native
    seconds = time.process_time() - started
    assert hashes.tolist() == np.sort(hashes_of(IDS)).tolist()
    assert COUNT / seconds > 1_000_000
    started = time.process_time()
    (array,) = parse_manifest(data, name).arrays
    seconds = time.process_time() - started
    assert (array.ids == IDS).all()
    assert (array.kind == NATIVE).all()
    assert array.coords[:, 0].tolist() == list(range(COUNT))
    assert COUNT / seconds > 1_000_000


def test_the_library_reads_the_manifests_that_these_tests_make(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), Graph((("1", "0", 1),), {"main": "1"}), 1)
    library = quiet().Repository.open(local_storage(tmp_path))
    (info,) = library.list_manifest_files(ids["1"])
    from dredge.icechunk.ids import decode_id

    _, data = manifest_file(IDS[:1000], decode_id(info.id))
    (tmp_path / "manifests" / info.id).write_bytes(data)
    said = quiet().Repository.open(local_storage(tmp_path)).inspect_manifest(info.id)
    assert (said["total_chunk_refs"], said["total_native"]) == (1000, 1000)
