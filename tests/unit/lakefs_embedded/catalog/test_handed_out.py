"""Addresses of the design profile: for a time, for one use, tracked."""

import pytest

from lakefs_embedded.catalog import Catalog, ObjectStats, Settings
from lakefs_embedded.errors import LinkAddressError
from tests.support.lakes import Lake, make_lake

DESIGN = Settings(background=False, profile="design")


@pytest.fixture
def lake() -> Lake:
    return make_lake(settings=DESIGN)


def hand_out(lake: Lake, path: str = "a") -> str:
    address = lake.catalog.addresses.get_physical_address(lake.repository, "main", path)
    lake.objects.put(address.removeprefix(lake.namespace + "/"), b"content")
    return address


def link(
    lake: Lake, address: str, path: str = "a", branch: str = "main", catalog: Catalog | None = None
) -> ObjectStats:
    return (catalog or lake.catalog).addresses.link_physical_address(
        lake.repository, branch, path, physical_address=address, checksum="abc", size_bytes=7
    )


def tracked(lake: Lake) -> list[bytes]:
    partition = lake.catalog.repositories.get_repository(lake.repository).partition.decode()
    return [key for key in lake.rows(partition) if key.startswith(b"link-addresses/")]


def test_an_older_address_is_refused_whether_or_not_it_was_scanned_away(lake: Lake) -> None:
    address = hand_out(lake)
    lake.clock.advance(hours=24, seconds=1)
    for _ in range(2):
        with pytest.raises(LinkAddressError, match="expired"):
            link(lake, address)
        lake.catalog.expire_tracked()
    assert tracked(lake) == []
    assert lake.paths() == []


def test_the_scan_removes_what_cannot_be_linked_and_nothing_else(lake: Lake) -> None:
    hand_out(lake, "old")
    lake.clock.advance(hours=20)
    young = hand_out(lake, "young")
    partition = lake.catalog.repositories.get_repository(lake.repository).partition
    lake.kv.set(partition, b"link-addresses/data/x/no-time", b"")
    before = lake.rows(partition.decode())
    lake.clock.advance(hours=5)
    assert lake.catalog.expire_tracked().addresses == 1
    assert lake.catalog.expire_tracked().addresses == 0
    gone = set(before) - set(lake.rows(partition.decode()))
    assert len(gone) == 1
    assert link(lake, young, "young")


@pytest.mark.parametrize(
    "address", ["s3://elsewhere/object", "{namespace}/object", "{namespace}/data/x/y", "{namespace}-2/data/x"]
)
def test_nothing_is_linked_that_was_not_handed_out(lake: Lake, address: str) -> None:
    with pytest.raises(LinkAddressError):
        link(lake, address.format(namespace=lake.namespace))
    assert lake.paths() == []
