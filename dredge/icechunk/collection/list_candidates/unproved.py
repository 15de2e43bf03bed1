"""Live manifests that came since the last run: is what they name in the store?

A bit that flips in a manifest turns a chunk's id into another one. Nothing is at the other id, and the true chunk looks
as if nothing named it. A listing of all chunks shows that; a run without one asks instead:

    the bytes that were counted have the MD5 that the store took when they were written: the store did not change them
    else: the manifest is read again, and must say what was counted; if its bytes have no such MD5 either, each chunk
    that was new is asked for
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
from dredge.icechunk.collection.index import read_manifest_rows
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.state.base import counts_folder
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import ID_BYTES, encode_ids, hashes_of
from dredge.runs.partition import WorkerRun, partition_function
from dredge.runs.summary import PartInfo
from dredge.sets.sharded import CountedSet
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
        index_part: that the manifests were counted from.
        manifests: tags of their files, by id; "" where the store gives none.
    """

    index_part: PartInfo
    manifests: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskResult:
    """What the store said.

    Attributes:
        asked: chunks that it was asked for.
        missing: of these, chunks that it does not have.
        absent: some of the missing ones, as 16 hexadecimal digits.
    """

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
    """Ask the store for every chunk that is new in some manifests.

    Raises:
        FormatError: a manifest is missing or damaged, or does not say what was counted.
    """
    reader = run.open_store()
    counted = dict(read_manifest_rows(run.open_state(), task.index_part))
    pieces = [np.empty((0, ID_BYTES), np.uint8)]
    for manifest, tag in task.manifests.items():
        ids, digest = _native(reader, manifest)
        if digest != tag:
            pieces.append(ids)
        if not np.array_equal(np.unique(hashes_of(ids)), counted[manifest]):
            raise FormatError(
                f"{reader.uri}/{OBJECT_FOLDERS['manifests']}{manifest} does not name the chunks that"
                f" {run.stores.state_uri}/index has for it: it was damaged, in the store or on its way, when the index"
                f" took it in. Nothing was deleted. Remove the folder {run.stores.state_uri}/index, which makes the"
                " next run read every manifest again."
            )
    ids = np.unique(np.concatenate(pieces), axis=0)
    hashes = hashes_of(ids)
    (known,) = config.counted.find(counts_folder(run.open_state(), run.stores.run_id), [hashes])
    keys = [OBJECT_FOLDERS["chunks"] + name for name in encode_ids(ids[~known]).to_pylist()]
    there = list(ordered_map(partial(exists, reader), keys, config.threads))
    missing = hashes[~known][~np.array(there, np.bool_)]
    run.progress.add(len(task.manifests))
    some = [f"{number:016x}" for number in missing[:ABSENT_MAX].tolist()]
    return AskResult(asked=len(keys), missing=len(missing), absent=some)


def _native(reader: ObjectReader, manifest: str) -> tuple[np.ndarray, str]:
    key = OBJECT_FOLDERS["manifests"] + manifest
    try:
        data = reader.get(key)
    except NotFoundError:
        raise FormatError(f"{reader.uri}/{key} is live and missing. Nothing was deleted.") from None
    native = [array.ids[array.kind == NATIVE] for array in parse_manifest(data, key).arrays]
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return np.concatenate([np.empty((0, ID_BYTES), np.uint8), *native]), digest
