"""Which references name live chunks that were not listed, and what the store says when it is asked for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_limits import absent
from dredge.icechunk.collection.check_limits.absent import (
    AbsentChunk,
    _ask,
    _finding,
    _named_in_manifests,
    _paths,
    _rows,
    check_absent,
)
from dredge.icechunk.collection.index import ManifestIndex, write_manifest_rows
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.mark import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import INLINE, NATIVE, VIRTUAL, NamedChunks, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
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
    """Every reference to a native chunk: chunk, manifest, and place."""
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


def named(run: Run, chunks: Iterable[str], most: int = 20) -> set[Named]:
    wanted = sets.of_names(chunks)
    found = list(_named_in_manifests(run, outputs(run)[0], wanted, most))
    assert len(found) == len({(chunk.key, chunk.manifest, chunk.coordinates) for chunk in found})
    return {(chunk.key.removeprefix("chunks/"), chunk.manifest, chunk.coordinates) for chunk in found}


def test_every_live_reference_to_a_wanted_chunk_is_found(repo: Repo, run: Run) -> None:
    whole = references(repo, live_manifests(repo))
    chunks = sorted({chunk for chunk, *_ in whole})
    assert named(run, chunks) == whole
    assert named(run, chunks[:2]) == {one for one in whole if one[0] in chunks[:2]}
    assert named(run, ["0" * 20]) == set()


def test_only_so_many_manifests_are_read(repo: Repo, run: Run) -> None:
    whole = references(repo, live_manifests(repo))
    assert len({manifest for _, manifest, _ in named(run, {chunk for chunk, *_ in whole}, 2)}) == 2


def test_manifests_without_a_wanted_chunk_are_not_among_so_many(repo: Repo, run: Run) -> None:
    whole = references(repo, live_manifests(repo))
    for chunk, *_ in sorted(whole):
        assert named(run, [chunk], 1)


def test_only_native_references_name_a_chunk() -> None:
    none = np.zeros(3, np.uint64)
    kind = np.array([VIRTUAL, NATIVE, INLINE], np.uint8)
    ids = np.zeros((3, 12), np.uint8)
    array: Any = SimpleNamespace(kind=kind, ids=ids)
    assert _rows(array, none[:1]).tolist() == [1]
    assert _rows(array, none[:0]).tolist() == []


def test_manifest_that_nothing_live_names_and_damaged_parts_of_the_index_are_passed_over(
    repo: Repo, run: Run
) -> None:
    whole = references(repo, live_manifests(repo))
    chunks = {chunk for chunk, *_ in whole}
    ids = np.array(sorted(map(hash_of, chunks)), np.uint64)
    dead = write_manifest_rows(run.state, "dead", [("0" * 20, NamedChunks(ids))])
    torn = write_manifest_rows(run.state, "torn", [(min(live_manifests(repo)), NamedChunks(ids))])
    ManifestIndex().add(run.state, "0", [], [(torn, [min(live_manifests(repo))]), (dead, ["0" * 20])])
    run.state.put(torn.name, b"x" * torn.size_bytes)
    assert named(run, chunks) == whole


def test_manifest_that_names_less_than_the_index_has_for_it_stops_the_run(repo: Repo, run: Run) -> None:
    manifest, other = min(live_manifests(repo)), sets.of_names(["0" * 20])
    there = sets.of_names(chunk for chunk, *_ in references(repo, [manifest]))
    part = write_manifest_rows(run.state, "more", [(manifest, NamedChunks(sets.unite([there, other])))])
    ManifestIndex().add(run.state, "0", [], [(part, [manifest])])
    with pytest.raises(FormatError, match=manifest):
        list(_named_in_manifests(run, outputs(run)[0], sets.unite([there, other])))


def chunk(name: str, manifest: str = "M", node_id: str = "N") -> AbsentChunk:
    return AbsentChunk(f"chunks/{name}", manifest, node_id, (2, 3))


def test_store_is_asked_once_for_each_chunk(repo: Repo, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name = min(chunk for chunk, *_ in references(repo, live_manifests(repo)))
    asked: list[str] = []
    stat = type(run.reader).stat

    def noted(self: Any, key: str) -> Any:
        asked.append(key)
        return stat(self, key)

    monkeypatch.setattr(type(run.reader), "stat", noted)
    gone, again = chunk("0" * 20), chunk("0" * 20, "O")
    there, missing = _ask(run, iter([gone, chunk(name), again, chunk(name, "O")]))
    assert (there, missing) == ({f"chunks/{name}"}, [gone])
    assert asked == [gone.key, f"chunks/{name}"]


def test_chunk_is_named_with_its_array_or_the_array_by_its_id() -> None:
    assert chunk("A").text({"N": "/numbers"}) == "chunks/A (chunk 2, 3 of /numbers, by manifests/M)"
    assert chunk("A").text({"O": "/numbers"}) == "chunks/A (chunk 2, 3 of node N, by manifests/M)"


def test_arrays_are_those_that_the_refs_see(repo: Repo, run: Run) -> None:
    nodes = {
        node.id: node.path
        for ref in read_history(open_reader(repo.uri)).refs
        for node in parse_snapshot(
            (repo.folder / "snapshots" / ref.tip).read_bytes(), ref.tip, nodes=True
        ).nodes
    }
    assert "/numbers" in nodes.values()
    assert _paths(run) == nodes
    assert _paths(run, 0) == {}


@pytest.mark.parametrize(
    ("count", "kept", "verdict"), [(0, False, "passed"), (1, False, "refused"), (1, True, "passed")]
)
@pytest.mark.parametrize("kind", ["chunks", "transactions"])
def test_anything_absent_is_refused_unless_the_kind_is_kept_whole(
    kind: str, count: int, kept: bool, verdict: str
) -> None:
    found = _finding(kind, count, kept, ["one", "two"], "Do this")
    assert (found.rule, found.verdict, found.figure, found.limit) == (f"{kind}_present", verdict, count, 0)
    assert found.text.startswith("transaction logs that" if kind == "transactions" else "chunks that")
    assert ("one" in found.text) is (count > 0)
    assert ("Do this" in found.text) is (verdict == "refused")


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


def test_only_so_many_manifests_and_refs_are_read_to_look_into_what_is_absent(repo: Repo, run: Run) -> None:
    ids = np.array([7], np.uint64)
    manifests = [f"{number:019d}0" for number in range(21)]
    part = write_manifest_rows(run.state, "many", [(manifest, NamedChunks(ids)) for manifest in manifests])
    ManifestIndex().add(run.state, "0", [], [(part, manifests)])
    assert len(list(absent._indexed(run, sets.of_names(manifests), ids))) == 20
    assert absent.TIPS_READ_MAX == 32
