"""Live manifests that came since the last run: which chunks are new, and is what they name in the store?

A bit that flips in a manifest turns a chunk's id into another one. Nothing is at the other id, and the true chunk looks
as if nothing named it. A listing of all chunks shows that; a run without one asks instead:

    the bytes that were counted have the MD5 that the store took when they were written: the store did not change them
    else: the manifest is read again, and must say what was counted; if its bytes have no such MD5 either, each chunk
    that was new is asked for

What is new is also compared with what earlier runs deleted (`check_again`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import read_manifest_rows
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.list_candidates.output import new_chunks_name
from dredge.icechunk.collection.state.base import counts_folder
from dredge.icechunk.format.manifests import NATIVE, NamedChunks, parse_manifest
from dredge.icechunk.ids import ID_BYTES, encode_ids, hashes_of
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import WorkerRun, partition_function
from dredge.sets.live import CountedSet
from dredge.storage import ObjectReader, exists
from dredge.storage.parallel import ordered_map

ABSENT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskConfig:
    """What all tasks need.

    Attributes:
        counted: chunks that earlier runs knew.
        threads: requests in flight in one task.
    """

    counted: CountedSet
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTask:
    """One task.

    Attributes:
        number: makes the name of the set that it writes.
        index_part: that the manifests were counted from.
        unproved: tags of the files of those whose bytes nothing proves, by id; "" where the store gives none.
        proved: ids of the others.
    """

    number: int
    index_part: PartInfo
    unproved: dict[str, str]
    proved: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResult:
    """What the store said.

    Attributes:
        new: set of all chunks that the manifests name and earlier runs did not know.
        asked: chunks that it was asked for.
        missing: of these, chunks that it does not have.
        absent: some of the missing ones, as 16 hexadecimal digits.
    """

    new: PartInfo
    asked: int
    missing: int
    absent: list[str]


def unproved(batch: pa.RecordBatch, prefix: str, read: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Give the new manifests on a page of a listing whose bytes nothing proves.

    Args:
        batch: of the listing.
        prefix: of its keys.
        read: MD5 of the bytes that were read ("" where nobody knows) and part of the index that they were counted
            from, by id of the new manifests.

    Returns:
        The part of the index that each was counted from, and the tag of its file, by id.
    """
    names = pc.utf8_slice_codeunits(batch["key"], len(prefix))
    new = pc.is_in(names, pa.array(list(read), pa.string()))
    rows = zip(names.filter(new).to_pylist(), batch["etag"].filter(new).to_pylist(), strict=True)
    return {name: [read[name][1], tag or ""] for name, tag in rows if not tag or read[name][0] != tag}


@partition_function
def ask_for_chunks(run: WorkerRun, config: AskConfig, task: AskTask) -> AskResult:
    """Find the chunks that are new in some manifests, and ask the store for those that nothing proves.

    Raises:
        FormatError: a manifest is missing or damaged, or does not say what was counted.
    """
    reader = run.open_store()
    counted = dict(read_manifest_rows(run.open_state(), task.index_part))
    pieces = [np.empty((0, ID_BYTES), np.uint8)]
    for manifest, tag in task.unproved.items():
        ids, named, digest = _read(reader, manifest)
        if digest != tag:
            pieces.append(ids)
        if not all(map(np.array_equal, named, counted[manifest])):
            raise FormatError(
                f"{reader.uri}/{OBJECT_FOLDERS['manifests']}{manifest} does not name the chunks that"
                f" {run.stores.state_uri}/index has for it: it was damaged, in the store or on its way, when the index"
                f" took it in. Nothing was deleted. Remove the folder {run.stores.state_uri}/index, which makes the"
                " next run read every manifest again."
            )
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


def _read(reader: ObjectReader, manifest: str) -> tuple[np.ndarray, NamedChunks, str]:
    key = OBJECT_FOLDERS["manifests"] + manifest
    try:
        data = reader.get(key)
    except NotFoundError:
        raise FormatError(f"{reader.uri}/{key} is live and missing. Nothing was deleted.") from None
    found = parse_manifest(data, key)
    native = [array.ids[array.kind == NATIVE] for array in found.arrays]
    ids = np.concatenate([np.empty((0, ID_BYTES), np.uint8), *native])
    named = NamedChunks(np.unique(hashes_of(ids)), sets.of_names(found.virtual_ids(key)))
    return ids, named, hashlib.md5(data, usedforsecurity=False).hexdigest()
