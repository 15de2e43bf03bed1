"""What the entries of a range mean as keys of the namespace."""

from __future__ import annotations

import unicodedata

import pytest

from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.entries import Entry
from tests.support.gc import World, make_world, stage_entry


def stage_full(world: World, uri: str, path: str) -> None:
    """Stage an address as a client words it."""
    world.lake.catalog.objects.stage_object(
        world.lake.repository, "main", path, physical_address=uri, checksum="c", size_bytes=1
    )


def test_trap_12_a_full_address_inside_the_namespace_is_the_same_as_a_relative_one() -> None:
    world = make_world()
    # Outside data/ of the namespace as staging words it, so that the server stores the whole URI.
    scheme_twin = world.lake.namespace.replace("memory://", "mem://")
    committed, staged = world.orphan("data/slice/full-1"), world.orphan("data/slice/full-2")
    stage_entry(world, "committed", Entry(f"{scheme_twin}/{committed}", AddressType.FULL, 1, "c"))
    world.lake.commit()
    stage_entry(world, "staged", Entry(f"{world.lake.namespace}/{staged}", AddressType.FULL, 1, "c"))
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collect()
    assert {committed, staged} <= world.data()
    assert orphan not in world.data()


@pytest.mark.parametrize("inside", [True, False])
def test_trap_12_type_0_addresses_of_old_repositories_are_live(inside: bool) -> None:
    world = make_world()
    key = world.orphan("data/slice/old")
    address = f"{world.lake.namespace}/{key}" if inside else key
    stage_entry(world, "old", Entry(address, AddressType.BY_PREFIX_DEPRECATED, 6, "c"))
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    world.collect()
    assert world.data() == {key}
    assert orphan not in world.data()


def test_trap_12_a_sibling_namespace_with_the_same_beginning_is_another_place() -> None:
    world = make_world()
    twin = world.orphan("data/slice/x")
    stage_full(world, f"{world.lake.namespace}2/data/slice/x", "elsewhere")
    world.lake.commit()
    world.age(days=2)
    world.collect()
    assert twin not in world.data()


def test_trap_13_signed_addresses_keep_their_comma() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    full = catalog.addresses.get_physical_address(name, "main", "linked")
    key = world.orphan(full.removeprefix(world.lake.namespace + "/"))
    assert "," in key
    catalog.addresses.link_physical_address(
        name, "main", "linked", physical_address=full, checksum="c", size_bytes=6
    )
    bare = world.orphan(key.partition(",")[0])
    world.age(days=2)
    world.collect()
    assert world.data() == {key}
    assert bare not in world.data()
    world.lake.commit()
    world.age(hours=1)
    world.collect()
    assert world.data() == {key}


ODD_NAMES = [
    "a//b",
    "a/../b",
    "a/./b",
    "pct%20x",
    "pct%2Fx",
    "plus+x",
    "quote'\"x",
    "amp&<>x",
    "back\\slash",
    "hash#x",
    "question?x",
    "comma,x",
    "trailing/",
    " space ",
    unicodedata.normalize("NFD", "nfd-é"),
    unicodedata.normalize("NFC", "nfd-é"),
    "emoji-🪣",
    "UPPER",
    "upper",
    "new\nline",
    "control\x01x",
    "%zz",
]


def test_trap_38_44_odd_names_are_told_apart_and_deleted_by_exactly_their_name() -> None:
    """Half of the names are live, the other half garbage; then the other way round."""
    for live in (0, 1):
        world = make_world()
        kept, gone = set(), set()
        for number, name in enumerate(ODD_NAMES):
            key = world.orphan(f"data/slice/{name}")
            if number % 2 == live:
                stage_entry(world, f"path{number}", Entry(key, AddressType.RELATIVE, 6, "c"))
                kept.add(key)
            else:
                gone.add(key)
        if live:
            world.lake.commit()
        world.age(days=2)
        world.collect()
        assert world.data() == kept
        assert gone.isdisjoint(world.data())
