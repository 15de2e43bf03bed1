import pytest

from lakefs_embedded.catalog import ObjectStats, Settings
from lakefs_embedded.errors import InvalidValueError, LinkAddressError, PathNotFoundError
from tests.support.lakes import Lake, make_lake
from tests.support.memory_store import memory_store


@pytest.fixture
def lake() -> Lake:
    return make_lake()


def stage(lake: Lake, path: str, address: str) -> ObjectStats:
    return lake.catalog.objects.stage_object(
        lake.repository, "main", path, physical_address=address, checksum="abc", size_bytes=7
    )


def test_a_copy_has_bytes_of_its_own(lake: Lake) -> None:
    source = lake.upload("a", b"content", metadata={"k": "v"}, content_type="text/plain")
    lake.clock.advance(hours=1)
    copy = lake.catalog.objects.copy_object(lake.repository, "main", "b", "a")
    assert copy.physical_address != source.physical_address
    assert (copy.checksum, copy.metadata, copy.content_type) == (source.checksum, {"k": "v"}, "text/plain")
    assert copy.mtime == lake.clock.now
    memory_store(lake.namespace.split("/")[2]).objects.pop(f"lake/{lake.address(source)}")
    assert lake.read("b") == b"content"


def test_new_metadata_stay_at_the_old_address(lake: Lake) -> None:
    stats = lake.upload("a", b"content", metadata={"old": "1"})
    lake.commit()
    lake.clock.advance(days=2)
    lake.catalog.objects.update_user_metadata(lake.repository, "main", "a", {"new": "2"})
    found = lake.catalog.reading.stat(lake.repository, "main", "a")
    assert found.metadata == {"new": "2"}
    assert (found.physical_address, found.mtime) == (stats.physical_address, stats.mtime)
    assert [diff.type for diff in lake.catalog.branches.diff_branch(lake.repository, "main").results] == [
        "changed"
    ]
    with pytest.raises(PathNotFoundError):
        lake.catalog.objects.update_user_metadata(lake.repository, "main", "nothing", {})


def test_trap_12_addresses_below_data_are_kept_relative_and_others_full(lake: Lake) -> None:
    inside = f"{lake.namespace}/data/some/object"
    beside = f"{lake.namespace}-2/data/some/object"
    elsewhere = f"{lake.namespace}/elsewhere/object"
    for path, address in {"in": inside, "beside": beside, "root": elsewhere}.items():
        assert stage(lake, path, address).physical_address == address
    lake.objects.put("data/some/object", b"content")
    assert lake.read("in") == b"content"
    with pytest.raises(InvalidValueError):
        stage(lake, "x", "no/uri")
    with pytest.raises(InvalidValueError):
        stage(lake, "x", f"{lake.namespace}/data/a\x01")


def test_the_design_profile_stages_nothing_inside_the_namespace() -> None:
    lake = make_lake(settings=Settings(background=False, profile="design"))
    with pytest.raises(InvalidValueError):
        stage(lake, "a", f"{lake.namespace}/data/some/object")
    stage(lake, "a", "s3://elsewhere/object")


def link(lake: Lake, path: str, address: str) -> ObjectStats:
    return lake.catalog.addresses.link_physical_address(
        lake.repository, "main", path, physical_address=address, checksum="abc", size_bytes=7
    )


def test_linking_elsewhere_or_too_late_is_refused(lake: Lake) -> None:
    address = lake.catalog.addresses.get_physical_address(lake.repository, "main", "a")
    with pytest.raises(LinkAddressError, match="signature"):
        link(lake, "b", address)
    with pytest.raises(LinkAddressError, match="not signed"):
        link(lake, "a", address.partition(",")[0])
    lake.clock.advance(hours=24, seconds=1)
    with pytest.raises(LinkAddressError, match="expired"):
        link(lake, "a", address)
    assert lake.paths() == []


def test_an_address_outside_data_is_linked_unverified(lake: Lake) -> None:
    for address in ("s3://elsewhere/object", f"{lake.namespace}/object"):
        assert link(lake, "a", address).physical_address == address
