"""The store without objects behaves as a store with them: benchmarks of growth rest on it."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import FIGURES, bends
from benchmarks.scale_lake import ScaleLake
from benchmarks.scale_objects import PER_SLICE, Virtual, etags, sizes
from benchmarks.scale_ranges import MARK, describe, entries, is_garbage, is_staged, path_of
from benchmarks.scale_server import MadeUpTable
from benchmarks.scale_store import KINDS, VirtualDeleter, VirtualReader, requests, restore
from benchmarks.tables import STEPS
from dredge.errors import NotFoundError
from dredge.lakefs.files.sstable import RANGES, read_table
from dredge.storage.location import Location

OBJECTS = PER_SLICE + 2_500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scale")
    (made / "repo").mkdir()
    Virtual(OBJECTS, "2026-01-02T03:04:05+00:00").write(made)
    restore(made)
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
        assert (info.size, info.etag) == (sizes(one)[0], bytes(etags(one)).decode())
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
    assert {kind: (requests(folder) - before)[kind] for kind in KINDS} == dict.fromkeys(KINDS, 0) | {
        "bulk_delete": 1
    }
    assert listed(reader, "data/", keys[9], keys[13]) == [kept]
    assert reader.stat(kept).key == kept
    for address in (doomed[0], keys[0][:-1] + "~", "data/other/" + "0" * 20):
        with pytest.raises(NotFoundError):
            reader.stat(address)


@pytest.mark.parametrize("version", [0, 2])
def test_a_made_up_range_has_the_records_of_its_id(tmp_path: Path, version: int) -> None:
    virtual, number = Virtual(4 * PER_SLICE, "2026-01-02T03:04:05+00:00"), 3
    virtual.write(tmp_path)
    info = describe(virtual, number, 3)[version]
    mark = MARK + b"%d %d" % (number, version)
    (tmp_path / "range").write_bytes(mark)
    data = VirtualReader(Location("local", "", str(tmp_path), f"file://{tmp_path}")).get("range")
    records = read_table(data, info.id, kind=RANGES, expected_id=info.id).records
    numbers = virtual.in_slice(number)
    numbers = numbers[~(is_garbage(numbers) | is_staged(numbers))]
    numbers = np.delete(numbers, version * 997) if version else numbers
    encoded = [entry.encode() for entry in entries(virtual, numbers)]
    assert [record.key.decode() for record in records] == list(map(path_of, numbers.tolist()))
    assert [record.value[-len(entry) :] for record, entry in zip(records, encoded, strict=True)] == encoded
    assert (info.count, info.min_key, info.max_key) == (len(records), records[0].key, records[-1].key)
    assert list(MadeUpTable(virtual, mark).records(records[7].key)) == records[7:]


def test_a_lake_that_was_begun_is_finished(tmp_path: Path) -> None:
    lake = ScaleLake(3 * PER_SLICE, tmp_path)
    lake.make()
    described = lake.folder / "ranges.jsonl"
    whole = described.read_text()
    (lake.folder / "complete").unlink()
    described.write_text(whole[: whole.index("\n") + 1])
    lake.make()
    assert described.read_text() == whole
    [range_id, first, *_] = json.loads(whole.splitlines()[2])[1]
    place = lake.root / "_lakefs" / range_id
    assert place.read_bytes().startswith(MARK)
    lake.fill_ranges()
    read = read_table(place.read_bytes(), range_id, kind=RANGES, expected_id=range_id)
    assert read.records[0].key == first.encode()


@pytest.mark.parametrize(("grown", "named"), [(2.2, 0), (2.4, 1)])
def test_a_figure_that_grows_faster_than_the_objects_is_named(grown: float, named: int) -> None:
    steps = [{step: dict.fromkeys(FIGURES, 10.0 * factor) for step in STEPS} for factor in (1, 2)]
    steps[1]["verify"]["cpu_seconds"] = 10.0 * grown
    rows = [{"objects": number, "steps": found} for number, found in enumerate(steps, 1)]
    assert bends(rows) == [("cpu_seconds", "verify", 2, grown / 2)] * named
