"""Canaries: objects that are known to live because a branch shows them. None of them may be a candidate.

They are asked of the server's ordinary object listing, which reads staging and commits together. So they are
independent of everything the marks were made from, and catch what a completeness proof cannot: wrong
addresses, a wrong live set, rows that a server lost.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dredge.errors import NotFoundError
from dredge.gc.context import Context
from dredge.gc.hashes import contains, read_hashes
from dredge.gc.ranges import METADATA
from dredge.graveler.addresses import AddressType, address_readings
from dredge.graveler.committed.metaranges import read_metarange
from dredge.hashing import hash64
from dredge.lakefs import LakeFS, ObjectStats, Ref
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader


@dataclass(frozen=True, slots=True)
class Canary:
    """A living object.

    Attributes:
        address: key relative to the namespace.
        branch: that shows it.
        path: under which it does.
    """

    address: str
    branch: str
    path: str


def sample(context: Context, seed: str) -> list[Canary]:
    """Take living objects of some branches: the first ones, some from a random place, and what is staged.

    Args:
        context: of the run.
        seed: makes the choice repeatable.
    """
    plan = context.plan
    chance = random.Random(f"{plan.run_id}-{seed}")
    branches = context.client.branches(plan.repository)
    main = [branch for branch in branches if branch.id == plan.default_branch]
    others = [branch for branch in branches if branch.id != plan.default_branch]
    count = min(len(others), max(0, plan.config.safety.canary_branches - len(main)))
    found: list[Canary] = []
    for branch in [*main, *chance.sample(others, count)]:
        try:
            found.extend(_of_branch(context, branch, chance))
        except NotFoundError:
            continue  # the branch went away meanwhile
    return found


def _of_branch(context: Context, branch: Ref, chance: random.Random) -> Iterator[Canary]:
    client, plan = context.client, context.plan
    each = max(1, plan.config.safety.canary_objects // 3)
    shown = client.objects(plan.repository, branch.id, amount=each)
    if len(shown) == each:
        shown += client.objects(
            plan.repository,
            branch.id,
            _some_path(context.reader, client, plan.repository, branch, chance),
            each,
        )
    for change in client.changes(plan.repository, branch.id, each):
        if change.type != "removed":
            shown += _stat(client, plan.repository, branch.id, change.path)
    for stats in shown:
        for address in address_readings(stats.address, AddressType.FULL, plan.namespace):
            yield Canary(address, branch.id, stats.path)


def _stat(client: LakeFS, repository: str, branch: str, path: str) -> list[ObjectStats]:
    try:
        return [client.stat(repository, branch, path)]
    except NotFoundError:
        return []  # removed since


def _some_path(
    reader: ObjectReader, client: LakeFS, repository: str, branch: Ref, chance: random.Random
) -> str:
    """A path somewhere in the branch's head: where one of its ranges begins."""
    metarange_id = client.commit(repository, branch.commit_id).metarange_id
    if not metarange_id:
        return ""
    key = METADATA + metarange_id
    ranges = read_metarange(reader.get(key), key).ranges
    return chance.choice(ranges).min_key.decode("utf-8", "ignore") if ranges else ""


def among(context: Context, canaries: list[Canary], hash_parts: list[PartInfo]) -> list[Canary]:
    """Find the canaries that would be deleted.

    Args:
        context: of the run.
        canaries: living objects.
        hash_parts: files with the hashes of what would be deleted.
    """
    if not canaries:
        return []
    hashes = hash64(pa.array([canary.address for canary in canaries], pa.string()))
    hit = np.zeros(len(canaries), bool)
    for part in hash_parts:
        hit |= contains(read_hashes(context.folder, part), hashes)
    return [canary for canary, found in zip(canaries, hit, strict=True) if found]
