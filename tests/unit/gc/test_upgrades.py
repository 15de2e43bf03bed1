"""A version that reads addresses in another way takes the place of an earlier one, between runs or within one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dredge.errors import RefusedError
from dredge.gc.index import store as index
from dredge.gc.steps import subtract
from dredge.lakefs.files import addresses
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.entries import Entry
from dredge.storage.schemes import canonical_parts
from tests.support.gc import World, make_world, stage_entry
from tests.support.tries import HERE, come_to


@pytest.fixture
def world() -> World:
    """With rules, and runs of whatever kind is best."""
    world = make_world(mode="auto")
    world.rules(30)
    return world


@pytest.fixture
def linked(world: World) -> str:
    """A key that an earlier version takes for one outside of the namespace, for how its commit spells the namespace."""
    key = world.orphan("data/slice/linked")
    spelled = world.lake.namespace.replace("memory://", "memory://me@")
    stage_entry(world, "linked", Entry(f"{spelled}/{key}", AddressType.FULL, 6, "c"))
    world.upload("more", b"more")
    world.lake.commit()
    return key


@contextmanager
def earlier_version() -> Iterator[None]:
    """Read addresses as an earlier version did, and say so."""
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(addresses, "served_parts", canonical_parts)
        earlier.setattr(index, "FORMAT", index.FORMAT - 1)
        yield


def unlink(world: World) -> None:
    """Let the commit that links be active still, and no head."""
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "linked")
    world.lake.commit()


@pytest.mark.parametrize("upgraded_before", ["the next run", "state"])
def test_counts_made_by_other_readings_of_addresses_are_not_built_on(
    world: World, linked: str, upgraded_before: str
) -> None:
    """A range that added no count of an address when it was read would take away the one that another added since."""
    first = world.plan(mode="clean")
    with earlier_version():
        come_to(first, upgraded_before)
    world.run(first)
    world.upload("even more", b"even more")
    world.lake.commit()
    world.age(days=31)
    unlink(world)
    world.collect(mode="optimized")
    assert linked in world.data()


@pytest.mark.parametrize("upgraded_before", ["subtract", "check_limits", "bulk_delete"])
def test_nothing_goes_that_an_earlier_version_did_not_find_live(
    world: World, linked: str, upgraded_before: str
) -> None:
    """The re-check reads no range that the mark has read."""
    unlink(world)
    world.age(days=3)
    first = world.plan()
    with earlier_version():
        come_to(first, upgraded_before)
    with pytest.raises(RefusedError, match="another version of Dredge"):
        world.run(first)
    orphan = world.orphan("data/slice/orphan")
    world.age(days=3)
    world.collect()
    assert linked in world.data()
    assert orphan not in world.data()


def test_what_an_earlier_version_did_not_find_live_is_not_put_before_anybody(
    world: World, linked: str
) -> None:
    """No list of candidates is written, so none can be approved."""
    unlink(world)
    world.age(days=3)
    first = world.plan()
    with earlier_version():
        come_to(first, "subtract")
    with pytest.raises(RefusedError, match="another version of Dredge"):
        subtract(first, HERE)
    assert first.folder.read_summary("subtract") is None
