"""Which references name live chunks that were not listed, and what the store says when it is asked for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from dredge.icechunk.collection.check_limits import AbsentChunk, check_absent
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import encode_ids, hash_of
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk_repo import Repo

type Named = tuple[str, str, tuple[int, ...]]


@pytest.fixture
def run(repo: Repo) -> Run:
    return repo.listed(dry_run=True)


def outputs(run: Run) -> tuple[MarkOutput, ListCandidatesOutput]:
    mark, listed = (run.folder.read_summary(step) for step in (MarkOutput.STEP, ListCandidatesOutput.STEP))
    assert mark is not None
    assert listed is not None
    return MarkOutput.of(mark), ListCandidatesOutput.of(listed)


def references(repo: Repo, manifests: Iterable[str]) -> set[Named]:
    found = set()
    for manifest in manifests:
        for array in parse_manifest((repo.folder / "manifests" / manifest).read_bytes(), manifest).arrays:
            for row in np.flatnonzero(array.kind == NATIVE).tolist():
                name = encode_ids(array.ids[row : row + 1])[0].as_py()
                found.add((name, manifest, tuple(array.coords[row].tolist())))
    return found


def live_manifests(repo: Repo) -> set[str]:
    nodes = read_history(open_reader(repo.uri)).snapshots
    return {info.id for node in nodes for info in repo.library.list_manifest_files(node)}


def chunk(name: str, manifest: str = "M", node_id: str = "N") -> AbsentChunk:
    return AbsentChunk(f"chunks/{name}", manifest, node_id, (2, 3))


def test_absent_chunk_and_log_each_refuse_the_run_and_say_which_setting_helps(repo: Repo, run: Run) -> None:
    name, *_ = min(references(repo, live_manifests(repo)))
    mark, listed = outputs(run)
    assert [found.verdict for found in check_absent(run, mark, listed)] == ["passed", "passed"]
    (repo.folder / "chunks" / name).unlink()
    there = min(chunk for chunk, *_ in references(repo, live_manifests(repo)) if chunk != name)
    summary = replace(
        listed.summary,
        counts={**listed.counts, "chunks_absent": 2, "transactions_absent": 1},
        details={
            **listed.summary.details,
            "absent": {"chunks": [f"{hash_of(one):016x}" for one in (name, there)]},
        },
    )
    chunks, logs = check_absent(run, mark, ListCandidatesOutput.of(summary))
    assert (chunks.rule, chunks.verdict, chunks.figure) == ("chunks_present", "refused", 1)
    assert f"chunks/{name} (chunk " in chunks.text
    assert f"chunks/{there}" not in chunks.text
    assert "--keep-chunks" in chunks.text
    assert (logs.rule, logs.verdict, logs.figure) == ("transactions_present", "refused", 1)
    assert "--keep-transactions" in logs.text
