"""Garbage among the chunks in an optimized run, which lists none; and, in a clean run, the chunks that such runs miss.

A flipped bit in a manifest turns a chunk's id into another id. No object has the other id, and the true chunk looks
like garbage. A listing of all chunks shows that; a run without a listing checks new live manifests:

    the counted bytes have the MD5 that the store computed at the upload: the store did not change them
    otherwise the manifest is read again, and must have the counted chunks; if its bytes have no such MD5 either, the
    run asks the store for each new chunk

New chunks are also compared with the deletions of earlier runs (`check_again`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import DredgeError, FormatError, NotFoundError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import ManifestIndex, error_of_difference, read_manifest_rows
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.list_candidates import listing, named
from dredge.icechunk.collection.list_candidates.listing import ListResult
from dredge.icechunk.collection.list_candidates.named import (
    NameConfig,
    NameResult,
    NameTask,
    SelectConfig,
    SelectTask,
)
from dredge.icechunk.collection.list_candidates.waiting import Before, due_chunks
from dredge.icechunk.collection.outputs import FOUND, ListCandidatesOutput, MarkOutput, new_chunks_name
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import Base, counts_folder
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.ids import ID_BYTES, encode_ids, hashes_of, hashes_of_names
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner, WorkerRun, in_chunks, round_robin, waiting_function
from dredge.runs.versions import CLEAN
from dredge.sets.live import CountedSet, LocatedSet
from dredge.storage import ObjectReader, exists
from dredge.storage.parallel import get_ahead, ordered_map

ABSENT_MAX = 1000

_MANIFESTS_PER_TASK = 500
_EXAMPLES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AskConfig:
    """Payload of all tasks: chunks in earlier counts, and requests in flight."""

    counted: CountedSet
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTask:
    """New manifests of a part of the index.

    Attributes:
        unproved: tags of the files with unproved bytes, by id; "" without a tag.
        proved: ids of the others.
    """

    number: int
    index_part: PartInfo
    unproved: dict[str, str]
    proved: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResult:
    """Answers of the store.

    Attributes:
        new: set of all chunks of the manifests without earlier counts.
        asked: chunks in requests.
        missing: asked chunks without an object.
        absent: some missing chunks, as 16 hexadecimal digits.
    """

    new: PartInfo
    asked: int
    missing: int
    absent: list[str]


@waiting_function
def ask_for_chunks(run: WorkerRun, config: AskConfig, task: AskTask) -> AskResult:
    """Find the new chunks of some manifests, and ask the store for those of unproved manifests."""
    reader = run.open_store()
    counted = dict(read_manifest_rows(run.open_state(), task.index_part))
    pieces = [np.empty((0, ID_BYTES), np.uint8)]
    keys = [OBJECT_FOLDERS["manifests"] + manifest for manifest in task.unproved]
    read = get_ahead(partial(_get_live, reader), keys, config.threads)
    for (manifest, tag), (key, data) in zip(task.unproved.items(), read, strict=True):
        found = parse_manifest(data, key)
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != tag:
            pieces.append(found.native_ids)
        named = np.unique(hashes_of(found.native_ids)), sets.of_names(found.virtual_ids(key))
        if not all(map(np.array_equal, named, counted[manifest])):
            raise error_of_difference(f"{reader.uri}/{key}", run.stores.state_uri)
    ids = np.unique(np.concatenate(pieces), axis=0)
    hashes = hashes_of(ids)
    named_by_all = sets.unite([counted[manifest].all for manifest in (*task.unproved, *task.proved)])
    folder = counts_folder(run.open_state(), run.stores.run_id)
    known, known_of_all = config.counted.find(folder, [hashes, named_by_all])
    new = sets.write_ids(run.folder, new_chunks_name(task.number), named_by_all[~known_of_all])
    keys = [OBJECT_FOLDERS["chunks"] + name for name in encode_ids(ids[~known]).to_pylist()]
    there = list(ordered_map(partial(exists, reader), keys, config.threads))
    missing = hashes[~known][~np.array(there, np.bool_)]
    run.progress.add(len(task.unproved) + len(task.proved))
    some = [f"{number:016x}" for number in missing[:ABSENT_MAX].tolist()]
    return AskResult(new=new, asked=len(keys), missing=len(missing), absent=some)


def _get_live(reader: ObjectReader, key: str) -> bytes:
    try:
        return reader.get(key)
    except NotFoundError:
        raise FormatError(f"{reader.uri}/{key} is live, but missing. Nothing was deleted.") from None


def find_chunks(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    results: Sequence[ListResult],
    before: Before,
    pinned: tuple[LocatedSet, ...],
) -> None:
    """Find deletable chunks, and check that the chunks of new manifests exist."""
    counted = record.input(MarkOutput).counted
    assert counted is not None  # the mark of an optimized run counts
    assert run.base is not None
    doubtful = {name: part for result in results for name, part in result.unproved.items()}
    _ask_for_new(run, runner, record, run.base, doubtful)
    if run.plan.config.keep_chunks:
        return
    settings = run.plan.config.tuning
    shards: dict[int, list[PartInfo]] = {}
    named_by_dead = [result.shards for result in of_dead(run, runner, record, counted.bits)]
    for found in (*named_by_dead, due_chunks(run, before, counted.bits)):
        for shard, part in found.items():
            shards.setdefault(shard, []).append(part)
    shares = round_robin(sorted(shards), run.num_tasks(runner, len(shards)))
    tasks = [
        SelectTask(number=number, shards={shard: shards[shard] for shard in share})
        for number, share in enumerate(shares)
    ]
    config = SelectConfig(
        counted=counted,
        cutoff=run.plan.cutoff,
        candidate_rows=settings.candidate_rows,
        threads=settings.threads,
        pinned=pinned,
    )
    rows = sum(part.rows for parts in shards.values() for part in parts)
    selected = run.spread(runner, ListCandidatesOutput.STEP, named.select_dead, config, tasks, "chunks", rows)
    totals: Counter[str] = Counter(dict.fromkeys(listing.FIGURES, 0))
    totals["absent"] = record.counts["chunks_absent"]
    for chosen in selected:
        record.parts += chosen.parts
        totals.update(chosen.counts)
    record.counts.update({f"chunks_{name}": value for name, value in totals.items()})


def _ask_for_new(
    run: Run, runner: TaskRunner, record: StepRecord, base: Base, manifests: Mapping[str, Sequence[str]]
) -> None:
    settings = run.plan.config.tuning
    new: dict[str, list[str]] = json.loads(run.folder.read_bytes(record.input(MarkOutput).new_manifests))
    index = ManifestIndex.load(run.state) if new else ManifestIndex()
    by_part: dict[str, list[str]] = {}
    for manifest, (_, part) in sorted(new.items()):
        by_part.setdefault(part, []).append(manifest)
    shares = [
        (index.manifest_parts[part], share)
        for part, names in sorted(by_part.items())
        for share in in_chunks(names, -(-len(names) // _MANIFESTS_PER_TASK))
    ]
    tasks = [
        AskTask(
            number=number,
            index_part=part,
            unproved={name: manifests[name][1] for name in share if name in manifests},
            proved=[name for name in share if name not in manifests],
        )
        for number, (part, share) in enumerate(shares)
    ]
    config = AskConfig(counted=base.state.counted, threads=settings.threads)
    answers: list[AskResult] = run.spread(
        runner, ListCandidatesOutput.STEP, ask_for_chunks, config, tasks, "manifests", len(new)
    )
    record.parts += [answer.new for answer in answers]
    absent = sorted({digits for answer in answers for digits in answer.absent})
    record.counts["manifests_unproved"] = len(manifests)
    record.counts["new_chunks_asked"] = sum(answer.asked for answer in answers)
    record.counts["chunks_absent"] = sum(answer.missing for answer in answers)
    if absent:
        record.details["absent"]["chunks"] = absent[: listing.ABSENT_MAX]


def of_dead(run: Run, runner: TaskRunner, record: StepRecord, bits: int) -> list[NameResult]:
    """Write the chunks of all manifests without a live snapshot."""
    start = f"{ListCandidatesOutput.STEP}/{FOUND}manifests-"
    parts = [part for part in record.parts if part.name.startswith(start)]
    pieces = [(part, first) for part in parts for first in range(0, part.rows, _MANIFESTS_PER_TASK)]
    tasks = [
        NameTask(name=f"named-{number:05d}", part=part, first=first, count=_MANIFESTS_PER_TASK)
        for number, (part, first) in enumerate(pieces)
    ]
    config = NameConfig(bits=bits, threads=run.plan.config.tuning.threads)
    total = sum(part.rows for part in parts)
    results = run.spread(
        runner, ListCandidatesOutput.STEP, named.name_chunks, config, tasks, "manifests", total
    )
    unread = [key for result in results for key in result.unread]
    record.counts["manifests_unread"] = len(unread)
    if unread:
        fate = "are deleted if listed" if run.plan.mode == CLEAN else "stay until the next clean run"
        record.warn(
            f"{len(unread):,} unneeded manifests cannot be read, such as {unread[0]}: their chunks {fate}"
        )
    return results


def find_drift(run: Run, runner: TaskRunner, record: StepRecord) -> dict[str, Any] | None:
    """Find the chunks beyond the reach of optimized runs.

    Returns:
        Figures and a few keys; None for an optimized run, or without a state.
    """
    plan = run.plan
    if plan.mode != CLEAN:
        return None
    try:
        if (base := run.previous) is None:
            return None
        folder = counts_folder(run.state, plan.run_id)
        start = f"{ListCandidatesOutput.STEP}/{FOUND}chunks-"
        tables = []
        for part in [part for part in record.parts if part.name.startswith(start)]:
            rows = run.folder.read_part(part, ["address", "size"])
            (known,) = base.state.counted.find(folder, [_hashes(rows)], its_shards_only=True)
            tables.append(rows.filter(pa.array(~known)))
        missed = _beyond_manifests(run, runner, record, tables)
    except DredgeError as error:
        record.warn(f"chunks that optimized runs may have missed are unknown: {error}")
        return None
    return {
        "objects": missed.num_rows,
        "bytes": int(pc.sum(missed["size"]).as_py() or 0),
        "samples": missed["address"].slice(0, _EXAMPLES_MAX).to_pylist(),
        "since": base.state.clean_run_id,
        "runs": base.state.optimized_runs,
    }


def _hashes(rows: pa.Table) -> sets.Ids:
    return hashes_of_names(pc.utf8_slice_codeunits(rows["address"], len(OBJECT_FOLDERS["chunks"])))[0]


def _beyond_manifests(
    run: Run, runner: TaskRunner, record: StepRecord, tables: Sequence[pa.Table]
) -> pa.Table:
    if not any(table.num_rows for table in tables):
        return pa.table({"address": pa.array([], pa.string()), "size": pa.array([], pa.int64())})
    rows = pa.concat_tables(tables)
    named_parts = [part for result in of_dead(run, runner, record, 0) for part in result.shards.values()]
    pieces = [run.folder.read_part(part, ["hash"])["hash"].to_numpy() for part in named_parts]
    found = sets.contains(sets.unite(pieces), _hashes(rows)) if pieces else np.zeros(rows.num_rows, np.bool_)
    return rows.filter(pa.array(~found))
