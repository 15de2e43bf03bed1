"""The store without objects behaves as a store with them: benchmarks of growth rest on it."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale_store import PER_SLICE, Virtual, VirtualDeleter, VirtualReader, etags, requests, sizes
from dredge.errors import NotFoundError
from dredge.storage.location import Location

OBJECTS = PER_SLICE + 2_500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scale")
    (made / "repo").mkdir()
    Virtual(OBJECTS, "2026-01-02T03:04:05+00:00").write(made)
    return made


@pytest.fixture
def location(folder: Path) -> Location:
    return Location("local", "", str(folder / "repo"), f"file://{folder}/repo")


def listed(reader: VirtualReader, *bounds: str) -> list[str]:
    return [key for batch in reader.list(*bounds) for key in batch["key"].to_pylist()]


def test_a_listing_has_every_address_once_in_the_order_of_names(folder: Path, location: Location) -> None:
    keys = listed(VirtualReader(location), "data/")
    assert keys == sorted(Virtual.read(folder).addresses(np.arange(OBJECTS)))
    assert len(set(keys)) == OBJECTS


def test_an_object_is_what_the_listing_says(folder: Path, location: Location) -> None:
    reader, numbers = VirtualReader(location), np.array([0, PER_SLICE + 7])
    for number, address in zip(numbers, Virtual.read(folder).addresses(numbers), strict=True):
        one, info = np.array([number]), reader.stat(address)
        assert (info.size, info.etag) == (sizes(one)[0], etags(one)[0])
        [row] = [row for batch in reader.list(address) for row in batch.to_pylist()]
        assert row == {
            "key": address,
            "size": info.size,
            "last_modified": info.last_modified,
            "etag": info.etag,
        }


def test_only_what_was_deleted_is_gone_and_bounds_hold(folder: Path, location: Location) -> None:
    reader = VirtualReader(location)
    keys = listed(reader, "data/")
    before = requests(folder)
    doomed, kept = keys[10:12], keys[12]
    assert [found.outcome for found in VirtualDeleter(location).delete(doomed)] == ["deleted"] * 2
    assert requests(folder) - before == {"bulk_delete": 1}
    assert listed(reader, "data/", keys[9], keys[13]) == [kept]
    assert reader.stat(kept).key == kept
    for address in (doomed[0], keys[0][:-1] + "~", "data/other/" + "0" * 20):
        with pytest.raises(NotFoundError):
            reader.stat(address)
