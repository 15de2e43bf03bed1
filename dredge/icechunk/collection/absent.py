"""Live objects without an object in the store: lost earlier, or misnamed by a damaged file.

A flipped bit in a manifest can turn a chunk's id into another id. No object has the other id, and the true chunk looks
like garbage. So an absent live object stops the run: either it was lost earlier, or the true object is among the
candidates. The run asks the store for each absent chunk by name, and reports a few with their array and coordinates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dredge.errors import FormatError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.check_again import refuse_deleted, refuse_deleted_ids
from dredge.icechunk.collection.index import ManifestIndex, error_of_difference, read_manifest_rows
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.sets import Ids
from dredge.icechunk.format.manifests import NATIVE, ArrayRefs, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import encode_ids, hashes_of
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, read_history
from dredge.runs.limits import Finding
from dredge.storage import exists

MANIFESTS_READ_MAX = 20
TIPS_READ_MAX = 32
EXAMPLES = 10
PRESENT = ("chunks_present", "transactions_present")
"""Rules with only a warning in a dry run."""

_WHAT_TO_DO = (
    "They were lost earlier, or a damaged {file} has wrong ids and the true objects look unreachable: check the"
    " examples with Icechunk. {repair} Until then {option} collects all kinds but {kind}"
)


@dataclass(frozen=True, slots=True)
class AbsentChunk:
    """A native chunk in a manifest without an object in the store."""

    key: str
    manifest: str
    node_id: str
    coordinates: tuple[int, ...]

    def text(self, paths: dict[str, str]) -> str:
        """Key, array and coordinates of the chunk."""
        where = ", ".join(map(str, self.coordinates))
        array = paths.get(self.node_id, f"node {self.node_id}")
        return f"{self.key} (chunk {where} of {array}, by {MANIFESTS}{self.manifest})"


def check_absent(run: Run, mark: MarkOutput, candidates: ListCandidatesOutput) -> Iterator[Finding]:
    """Check that live chunks and transaction logs exist.

    Yields:
        A finding for each rule of `PRESENT`. A refusal cannot be approved: the candidates may include the true objects.

    Raises:
        AlarmError: an earlier run had deleted one of the chunks; it was restored where possible.
        FormatError: a manifest differs from the index, or cannot be read any more.
    """
    refuse_deleted_ids(run, [*mark.virtual_chunks, *candidates.new_chunks])
    count, examples = candidates.counts["chunks_absent"], list[str]()
    if count:
        wanted = candidates.absent_chunks
        only_kept = _named_by_kept_only(run, mark, wanted)
        count, wanted = count - int(only_kept.sum()), wanted[~only_kept]
    if candidates.counts["chunks_absent"]:
        _, gone = _ask(run, _named_in_manifests(run, mark, candidates.absent_chunks))
        refuse_deleted(run, run.folder.label, [chunk.key for chunk in gone])
    if count:
        there, gone = _ask(run, _named_in_manifests(run, mark, wanted))
        count -= len(there)
        paths = _paths(run)
        examples = [chunk.text(paths) for chunk in gone[:EXAMPLES]]
    yield _finding(
        "chunks",
        count,
        run.plan.config.keep_chunks,
        examples,
        _WHAT_TO_DO.format(
            file="manifest",
            kind="chunks",
            option="keep_chunks (--keep-chunks)",
            repair="Write these chunks again or delete the arrays, and let the snapshots that need them expire.",
        ),
    )
    logs = candidates.counts["transactions_absent"]
    yield _finding(
        "transactions",
        logs,
        run.plan.config.keep_transactions,
        [],
        _WHAT_TO_DO.format(
            file="repo info",
            kind="transaction logs",
            option="keep_transactions (--keep-transactions)",
            repair="In the repo info they are logs of expired ancestors.",
        ),
    )


def _finding(kind: str, count: int, kept: bool, examples: list[str], what_to_do: str) -> Finding:
    rule = f"{kind}_present"
    named = "transaction logs" if kind == "transactions" else kind
    text = f"live {named} without an object in the store: {count:,}"
    if not count:
        return Finding(rule, "passed", count, 0, text)
    text += f", such as {'; '.join(examples)}" if examples else ""
    if kept:
        return Finding(rule, "passed", count, 0, f"{text}; this run deletes no {named}")
    return Finding(rule, "refused", count, 0, f"{text}. {what_to_do}")


def _named_by_kept_only(
    run: Run, mark: MarkOutput, wanted: Ids
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    # A missing chunk is no damage if only manifests of kept, unneeded snapshots have it (lost or unreferenced ones).
    by_kept, by_needed = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.bool_)
    kept = set(json.loads(run.folder.read_bytes(mark.kept_manifests)))
    if not kept:
        return by_kept
    live = sets.read_ids(run.folder, mark.live("manifests"))
    for part in ManifestIndex.load(run.state).manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            return np.zeros(len(wanted), np.bool_)  # it may have one of them for a snapshot in use
        for manifest, chunks in rows:
            if manifest in kept:
                by_kept |= sets.contains(chunks.native, wanted)
            elif sets.contains(live, sets.of_names([manifest])).all():
                by_needed |= sets.contains(chunks.native, wanted)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = by_kept & ~by_needed
    return found


def _named_in_manifests(
    run: Run, mark: MarkOutput, wanted: Ids, most: int = MANIFESTS_READ_MAX
) -> Iterator[AbsentChunk]:
    # By a second read and another loop than the mark's.
    live = sets.read_ids(run.folder, mark.live("manifests"))
    for manifest, hashes in _indexed(run, live, wanted, most):
        key = MANIFESTS + manifest
        found = np.empty(0, np.uint64)
        for array in parse_manifest(run.reader.get(key), key).arrays:
            rows = _rows(array, wanted)
            found = np.concatenate([found, hashes_of(array.ids[rows])])
            for row, name in zip(rows.tolist(), encode_ids(array.ids[rows]).to_pylist(), strict=True):
                yield AbsentChunk(CHUNKS + name, manifest, array.node_id, tuple(array.coords[row].tolist()))
        if not np.isin(hashes, found).all():
            raise error_of_difference(f"{run.reader.uri}/{key}", run.state.uri)


def _indexed(run: Run, live: Ids, wanted: Ids, left: int = MANIFESTS_READ_MAX) -> Iterator[tuple[str, Ids]]:
    index = ManifestIndex.load(run.state)
    for part in index.manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            continue  # the mark read its manifests again
        for manifest, chunks in rows:
            if not sets.contains(live, sets.of_names([manifest])).all():
                continue
            hashes = wanted[sets.contains(chunks.native, wanted)]
            if len(hashes):
                yield manifest, hashes
                left -= 1
                if not left:
                    return


def _rows(array: ArrayRefs, wanted: Ids) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero((array.kind == NATIVE) & sets.contains(wanted, hashes_of(array.ids)))


def _ask(run: Run, chunks: Iterator[AbsentChunk]) -> tuple[set[str], list[AbsentChunk]]:
    there: set[str] = set()
    gone: dict[str, AbsentChunk] = {}
    for chunk in chunks:
        if chunk.key in there or chunk.key in gone:
            continue
        if exists(run.reader, chunk.key):
            there.add(chunk.key)
        else:
            gone[chunk.key] = chunk
    return there, list(gone.values())


def _paths(run: Run, most: int = TIPS_READ_MAX) -> dict[str, str]:
    found: dict[str, str] = {}
    for tip in sorted({ref.tip for ref in read_history(run.reader).refs})[:most]:
        key = SNAPSHOTS + tip
        found |= {node.id: node.path for node in parse_snapshot(run.reader.get(key), key, nodes=True).nodes}
    return found
