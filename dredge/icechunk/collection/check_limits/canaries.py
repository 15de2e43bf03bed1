"""Canaries: objects that refs surely need, found by another way than the mark's.

The mark decodes manifests with its fast loop into numbers; here the other loop gives ids, which are spelled
out and compared as names. A canary among the candidates means that one of the two is wrong: the run stops.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.ids import ID_BYTES, encode_ids
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, read_refs
from dredge.storage import exists
from dredge.storage.parallel import ordered_map

LOOKED_UP_MAX = 200
_AT_ONCE = 64
_NO_IDS = np.empty((0, ID_BYTES), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is read for a sample.

    Attributes:
        refs: tips of refs.
        manifests: of a tip.
        refs_per_manifest: manifests with more references are not read.
    """

    refs: int = 32
    manifests: int = 4
    refs_per_manifest: int = 2_000_000


_SIZES = Sizes()


def sample(run: Run, sizes: Sizes = _SIZES) -> list[str]:
    """Give keys that the refs need now: tips, some of their manifests, some of their chunks.

    Args:
        run: this run.
        sizes: how much is read.
    """
    rng = random.Random(run.plan.run_id)
    tips = sorted(_tips(run))
    keys = [SNAPSHOTS + tip for tip in rng.sample(tips, min(sizes.refs, len(tips)))]
    chosen: list[str] = []
    for key, data in run.reader.get_many(list(keys)):
        used = parse_snapshot(data, key).manifests
        small = [MANIFESTS + info.id for info in used if info.refs <= sizes.refs_per_manifest]
        keys += [MANIFESTS + info.id for info in used]
        chosen += rng.sample(small, min(sizes.manifests, len(small)))
    for key, data in run.reader.get_many(list(dict.fromkeys(chosen))):
        keys += _chunks(run, key, data, rng)
    return sorted(set(keys))


def _tips(run: Run) -> set[str]:
    """Give the tips of the refs as of now. Spec 1 says them without the history, which is a request a snapshot."""
    if run.plan.spec_version == 1 and run.plan.config.after is None:
        return set(read_refs(run.reader).values())
    return {ref.tip for ref in run.read_history().refs}


def _chunks(run: Run, key: str, data: bytes, rng: random.Random) -> list[str]:
    arrays = parse_manifest(data, key).arrays
    ids = np.concatenate([_NO_IDS, *(array.ids[array.kind == NATIVE] for array in arrays)])
    count = min(run.plan.config.safety.canary_chunks, len(ids))
    rows = sorted(rng.sample(range(len(ids)), count))
    return [CHUNKS + name for name in encode_ids(ids[rows]).to_pylist()]


def among(run: Run, keys: Collection[str], candidates: ListCandidatesOutput) -> list[str]:
    """Give the canaries that are candidates."""
    wanted = pa.array(sorted(keys), pa.string())
    found: list[str] = []
    for kind in OBJECT_FOLDERS:
        for table in run.folder.read_parts(candidates.candidates(kind), ["address"]):
            found += table.filter(pc.is_in(table["address"], wanted))["address"].to_pylist()
    return found


def split(run: Run, keys: Sequence[str], most: int = LOOKED_UP_MAX) -> tuple[list[str], list[str]]:
    """Look some canaries up, at most so many: those that are in the store, and those that are not."""
    chosen = random.Random(run.plan.run_id).sample(keys, min(most, len(keys)))
    there = list(ordered_map(lambda key: exists(run.reader, key), chosen, _AT_ONCE))
    present = [key for key, is_there in zip(chosen, there, strict=True) if is_there]
    return present, [key for key, is_there in zip(chosen, there, strict=True) if not is_there]
