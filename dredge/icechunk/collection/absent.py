"""Find live objects missing from the store, and ask the store for unlisted chunks.

A flipped bit in a manifest turns a chunk's id into another id. No object has the other id, and the true chunk looks
like garbage. So an absent live object stops the run: either it was lost earlier, or the true object is among the
candidates. A listing of all chunks shows absent ones. Runs without it ask the store for chunks by name:

    optimized run     chunks of new live manifests whose bytes are not proved: the counted bytes must have the MD5 that
                      the store computed at the upload; otherwise the manifest is read again, and must have the counted
                      chunks; if its bytes have no such MD5 either, the run asks for each new chunk
    with inventory    live chunks missing from the inventory

The guard checks each absent chunk again, with another loop than the mark's, and reports a few with array and
coordinates. New chunks are also compared with the deletions of earlier runs (`check_again`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection.check_again import refuse_deleted, refuse_deleted_ids
from dredge.icechunk.collection.index import ManifestIndex, error_of_difference, read_manifest_rows
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput, new_chunks_name
from dredge.icechunk.collection.run import Base, Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.ids import ID_BYTES, encode_ids, hash_ids, hashes_of
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, read_history
from dredge.runs.folder import RunFolder
from dredge.runs.limits import Finding
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, partition_function, waiting_function
from dredge.sets.hashes import Hashes, contains, read_hashes, unite, write_hashes
from dredge.sets.live import CountedSet
from dredge.storage import ObjectReader, exists
from dredge.storage.parallel import get_ahead, ordered_map
from dredge.undo.deletions import Deletions

ABSENT_MAX = 1000
"""Maximum number of reported absent objects of a kind."""
MANIFESTS_PER_TASK = 500
MANIFESTS_READ_MAX = 20
TIPS_READ_MAX = 32
EXAMPLES = 10
PRESENT = ("chunks_present", "transactions_present")
"""Rules with only a warning in a dry run."""

_WHAT_TO_DO = (
    "Either they were lost earlier, or a damaged {file} has wrong ids and the true objects look unreachable. Check"
    " the examples with Icechunk. {repair} Until then set {option}: the run then deletes no {kind}"
)

type Mask = npt.NDArray[np.bool_]


class AskResult(Struct, frozen=True, kw_only=True):
    """Result of a task: numbers of checked and of missing chunks, some missing ids in hexadecimal digits, the set of
    all chunks without earlier counts (optimized runs), and whether the part of the index is damaged."""

    asked: int = 0
    missing: int = 0
    absent: list[str] = field(default_factory=list)
    new: PartInfo | None = None
    is_damaged: bool = False


def _ask_store(reader: ObjectReader, ids: npt.NDArray[np.uint8], new: PartInfo | None = None) -> AskResult:
    keys = [CHUNKS + name for name in encode_ids(ids).to_pylist()]
    there = list(ordered_map(partial(exists, reader), keys))
    missing = unite([hashes_of(ids)[~np.array(there, np.bool_)]])
    some = [f"{number:016x}" for number in missing[:ABSENT_MAX].tolist()]
    return AskResult(asked=len(keys), missing=len(missing), absent=some, new=new)


def _distinct(pieces: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    return np.unique(np.concatenate([np.empty((0, ID_BYTES), np.uint8), *pieces]), axis=0)


def _get_live(reader: ObjectReader, key: str) -> bytes:
    try:
        return reader.get(key)
    except NotFoundError:
        raise FormatError(f"{reader.uri}/{key} is live, but missing. Nothing was deleted.") from None


def _record(record: StepRecord, answers: Sequence[AskResult]) -> int:
    absent = sorted({digits for answer in answers for digits in answer.absent})
    record.counts["new_chunks_asked"] = sum(answer.asked for answer in answers)
    if absent:
        record.details["absent"]["chunks"] = absent[:ABSENT_MAX]
    return sum(answer.missing for answer in answers)


class AskTask(Struct, frozen=True, kw_only=True):
    """New manifests of a part of the index: ETags by id of the files with unproved bytes ("" without an ETag), and ids
    of the proved files."""

    number: int
    index_part: PartInfo
    unproved: dict[str, str]
    proved: list[str]


@waiting_function
def ask_for_chunks(run: WorkerRun, before: CountedSet, task: AskTask) -> AskResult:
    """Find the chunks of some manifests without earlier counts, and ask the store for those of unproved manifests."""
    reader = run.open_store()
    counted = dict(read_manifest_rows(run.open_state(), task.index_part))
    pieces = []
    keys = [MANIFESTS + manifest for manifest in task.unproved]
    read = get_ahead(partial(_get_live, reader), keys)
    for (manifest, tag), (key, data) in zip(task.unproved.items(), read, strict=True):
        found = parse_manifest(data, key)
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != tag:
            pieces.append(found.native_ids)
        named = np.unique(hashes_of(found.native_ids)), hash_ids(found.virtual_ids(key))
        if not all(map(np.array_equal, named, counted[manifest])):
            raise error_of_difference(f"{reader.uri}/{key}", run.stores.state_uri)
    ids = _distinct(pieces)
    named_by_all = unite([counted[manifest].all for manifest in (*task.unproved, *task.proved)])
    folder = RunFolder(run.open_state(), run.stores.run_id)
    known, known_of_all = before.find(folder, [hashes_of(ids), named_by_all])
    new = write_hashes(run.folder, new_chunks_name(task.number), named_by_all[~known_of_all])
    run.progress.add(len(task.unproved) + len(task.proved))
    return _ask_store(reader, ids[~known], new)


def ask_for_new(
    run: Run, runner: TaskRunner, record: StepRecord, base: Base, unproved: Mapping[str, Sequence[str]]
) -> None:
    """Check that the chunks of new live manifests exist, in a run without a listing; `unproved` is that of
    `ListResult`."""
    new: dict[str, list[str]] = json.loads(run.folder.read_bytes(record.input(MarkOutput).new_manifests))
    index = run.read_index() if new else ManifestIndex()
    by_part: dict[str, list[str]] = {}
    for manifest, (_, part) in sorted(new.items()):
        by_part.setdefault(part, []).append(manifest)
    shares = [
        (index.manifest_parts[part], share)
        for part, names in sorted(by_part.items())
        for share in in_chunks(names, -(-len(names) // MANIFESTS_PER_TASK))
    ]
    tasks = [
        AskTask(
            number=number,
            index_part=part,
            unproved={name: unproved[name][1] for name in share if name in unproved},
            proved=[name for name in share if name not in unproved],
        )
        for number, (part, share) in enumerate(shares)
    ]
    step, before = ListCandidatesOutput.STEP, base.state.counted
    answers = run.spread(runner, step, ask_for_chunks, before, tasks, "manifests", len(new))
    record.parts += [answer.new for answer in answers if answer.new is not None]
    record.counts["manifests_unproved"] = len(unproved)
    record.counts["chunks_absent"] = _record(record, answers)


class AbsentConfig(Struct, frozen=True, kw_only=True):
    """Payload of all tasks: sets of live chunks outside the inventory, and the set of live manifests."""

    absent: list[PartInfo]
    live: PartInfo


@partition_function
def ask_for_absent(run: WorkerRun, config: AbsentConfig, index_part: PartInfo) -> AskResult:
    """Ask the store for chunks that the inventory lacks, of the live manifests in a part of the index."""
    try:
        rows = read_manifest_rows(run.open_state(), index_part)
    except FormatError:
        return AskResult(is_damaged=True)
    absent = unite([read_hashes(run.folder, part) for part in config.absent])
    live, reader, pieces = read_hashes(run.folder, config.live), run.open_store(), []
    for manifest, chunks in rows:
        wanted = chunks.native[contains(absent, chunks.native)]
        if not len(wanted) or not contains(live, hash_ids([manifest])).all():
            continue
        key = MANIFESTS + manifest
        ids = parse_manifest(_get_live(reader, key), key).native_ids
        pieces.append(ids[contains(wanted, hashes_of(ids))])
        if len(np.unique(hashes_of(pieces[-1]))) != len(wanted):
            raise error_of_difference(f"{reader.uri}/{key}", run.stores.state_uri)
    run.progress.add(1)
    return _ask_store(reader, _distinct(pieces))


def ask_beyond_inventory(
    run: Run, runner: TaskRunner, record: StepRecord, mark: MarkOutput, absent: Sequence[PartInfo]
) -> int:
    """Ask the store for the live chunks in `absent`, which the inventory lacks; returns the number without an object.
    Raises FormatError: a live manifest is missing or damaged, or a part of the index was damaged after the mark."""
    if not absent:
        return 0
    index = run.read_index()
    tasks = list(index.manifest_parts.values())
    config, step = AbsentConfig(absent=list(absent), live=mark.live("manifests")), ListCandidatesOutput.STEP
    answers = run.spread(runner, step, ask_for_absent, config, tasks, "parts", len(tasks))
    for part, answer in zip(tasks, answers, strict=True):
        if answer.is_damaged:
            index.drop(part.name)
    _check_complete(run, index, mark)
    return _record(record, answers)


def _check_complete(run: Run, index: ManifestIndex, mark: MarkOutput) -> None:
    # The mark has read the manifests of damaged parts again, into other parts.
    live = read_hashes(run.folder, mark.live("manifests"))
    read = hash_ids(manifest for names in index.manifests_of.values() for manifest in names)
    if lacking := int((~contains(read, live)).sum()):
        raise FormatError(
            f"{run.state.uri}: parts of the index with {lacking:,} live manifests were damaged after the mark, so some"
            " chunks outside the inventory were not checked. Nothing was deleted. Start a new run."
        )


class AbsentChunk(Struct, frozen=True):
    """A native chunk in a manifest without an object in the store."""

    key: str
    manifest: str
    node_id: str
    coordinates: tuple[int, ...]

    def text(self, paths: dict[str, str]) -> str:
        """Key, array and coordinates of the chunk."""
        where = ", ".join(map(str, self.coordinates))
        array = paths.get(self.node_id, f"node {self.node_id}")
        return f"{self.key} (chunk {where} of {array}, listed in {MANIFESTS}{self.manifest})"


def check_absent(
    run: Run, mark: MarkOutput, candidates: ListCandidatesOutput, records: Deletions | None = None
) -> Iterator[Finding]:
    """Check that live chunks and transaction logs exist; `records` of deletions, if they were read.

    Yields:
        A finding for each rule of `PRESENT`. A refusal cannot be approved: the candidates may include the true objects.

    Raises:
        AlarmError: an earlier run had deleted one of the chunks; it was restored where possible.
        FormatError: a manifest differs from the index, or cannot be read any more.
    """
    refuse_deleted_ids(run, [*mark.virtual_chunks, *candidates.new_chunks, *candidates.outside], records)
    count, examples = candidates.counts["chunks_absent"], list[str]()
    if count:
        wanted = candidates.absent_chunks
        needed = wanted[~_named_by_kept_only(run, mark, wanted)]
        count -= len(wanted) - len(needed)
        _, gone = _ask(run, _named_in_manifests(run, mark, wanted))
        refuse_deleted(run, run.folder.label, [chunk.key for chunk in gone])
        if count:
            there, gone = _ask(run, _named_in_manifests(run, mark, needed))
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
    yield _finding(
        "transactions",
        candidates.counts["transactions_absent"],
        run.plan.config.keep_transactions,
        [],
        _WHAT_TO_DO.format(
            file="repo info",
            kind="transaction logs",
            option="keep_transactions (--keep-transactions)",
            repair="The repo info lists them as logs of expired ancestors.",
        ),
    )


def _finding(kind: str, count: int, kept: bool, examples: list[str], what_to_do: str) -> Finding:
    rule = f"{kind}_present"
    named = "transaction logs" if kind == "transactions" else kind
    text = f"live {named} missing from the store: {count:,}"
    if not count:
        return Finding(rule, "passed", count, 0, text)
    text += f", such as {'; '.join(examples)}" if examples else ""
    if kept:
        return Finding(rule, "passed", count, 0, f"{text}; this run deletes no {named}")
    return Finding(rule, "refused", count, 0, f"{text}. {what_to_do}")


def _named_by_kept_only(run: Run, mark: MarkOutput, wanted: Hashes) -> Mask:
    # A missing chunk is no damage if only manifests of kept, unneeded snapshots have it (lost or unreferenced ones).
    by_kept, by_needed = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.bool_)
    kept = set(json.loads(run.folder.read_bytes(mark.kept_manifests)))
    if not kept:
        return by_kept
    live = read_hashes(run.folder, mark.live("manifests"))
    for part in run.read_index().manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            return np.zeros(len(wanted), np.bool_)  # it may have one of them for a snapshot in use
        for manifest, chunks in rows:
            if manifest in kept:
                by_kept |= contains(chunks.native, wanted)
            elif contains(live, hash_ids([manifest])).all():
                by_needed |= contains(chunks.native, wanted)
    found: Mask = by_kept & ~by_needed
    return found


def _named_in_manifests(run: Run, mark: MarkOutput, wanted: Hashes) -> Iterator[AbsentChunk]:
    live = read_hashes(run.folder, mark.live("manifests"))
    for manifest, hashes in _indexed(run, live, wanted):
        key = MANIFESTS + manifest
        found = np.empty(0, np.uint64)
        for array in parse_manifest(run.reader.get(key), key).arrays:
            rows = np.flatnonzero((array.kind == NATIVE) & contains(wanted, hashes_of(array.ids)))
            found = np.concatenate([found, hashes_of(array.ids[rows])])
            for row, name in zip(rows.tolist(), encode_ids(array.ids[rows]).to_pylist(), strict=True):
                yield AbsentChunk(CHUNKS + name, manifest, array.node_id, tuple(array.coords[row].tolist()))
        if not np.isin(hashes, found).all():
            raise error_of_difference(f"{run.reader.uri}/{key}", run.state.uri)


def _indexed(
    run: Run, live: Hashes, wanted: Hashes, left: int = MANIFESTS_READ_MAX
) -> Iterator[tuple[str, Hashes]]:
    for part in run.read_index().manifest_parts.values():
        try:
            rows = read_manifest_rows(run.state, part)
        except FormatError:
            continue  # the mark read its manifests again
        for manifest, chunks in rows:
            if not contains(live, hash_ids([manifest])).all():
                continue
            hashes = wanted[contains(chunks.native, wanted)]
            if len(hashes):
                yield manifest, hashes
                left -= 1
                if not left:
                    return


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


def _paths(run: Run) -> dict[str, str]:
    found: dict[str, str] = {}
    for tip in sorted({ref.tip for ref in read_history(run.reader).refs})[:TIPS_READ_MAX]:
        key = SNAPSHOTS + tip
        found |= {node.id: node.path for node in parse_snapshot(run.reader.get(key), key, nodes=True).nodes}
    return found
