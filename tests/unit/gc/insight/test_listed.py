"""Every listed object is given once, beside the labels of its shard."""

from __future__ import annotations

import numpy as np
import pytest

from dredge.gc.insight.addresses import listed_shards
from dredge.gc.slice_listing import SliceListingOutput
from dredge.sets.hashes import shard_of
from dredge.sets.labels import LabelledSets, Labels
from tests.support.gc import Parallel, make_world, summary_of


@pytest.mark.parametrize("shard_values", [1000, 4])
def test_every_listed_object_is_given_once_in_its_shard(shard_values: int) -> None:
    world = make_world()
    world.runner = Parallel()
    for number in range(20):
        world.orphan(f"data/slice{number % 4}/{number}", b"x" * number)
    world.age(days=2)
    context = world.plan(dry_run=True)
    world.run(context)
    parts = SliceListingOutput.of(summary_of(context, "slice_listing")).listed
    assert len(parts) > 1
    rows = [context.folder.read_part(part) for part in parts]
    hashes = np.concatenate([table["hash"].to_numpy() for table in rows])
    labels = Labels((np.array([1, 2]),), (np.bitwise_or,))
    with LabelledSets(labels, len(hashes), shard_values) as sets:
        assert (sets.bits > 0) == (shard_values == 4)
        sets.add(0, hashes[:10])
        sets.add(1, hashes[5:15])
        found: dict[int, int] = {}
        told: dict[int, int] = {}
        for labelled, listed in listed_shards(context.folder, parts, sets):
            assert len(set(shard_of(listed.hashes, sets.bits).tolist())) == 1
            found |= dict(zip(listed.hashes.tolist(), listed.sizes.tolist(), strict=True))
            here, places = labelled.find(listed.hashes)
            told |= dict(
                zip(listed.hashes[here].tolist(), labelled.columns[0][places[here]].tolist(), strict=True)
            )
    sizes = np.concatenate([table["size"].to_numpy() for table in rows])
    assert found == dict(zip(hashes.tolist(), sizes.tolist(), strict=True))
    assert told == {
        value: 1 | 2 if 5 <= i < 10 else 1 + (i >= 10) for i, value in enumerate(hashes[:15].tolist())
    }
