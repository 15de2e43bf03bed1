"""Which ranges metaranges name: read here when they are few, else by tasks, and no metarange twice."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.index.ranges import read_files
from dredge.gc.run import Run
from dredge.lakefs.files.ranges import RangeInfo, write_metarange
from dredge.lakefs.files.sstable import write_table
from tests.support.gc import World, make_world


def info(letter: str, count: int = 1) -> RangeInfo:
    key = letter.encode()
    return RangeInfo(letter * 64, key, key + b"z", 100, count)


def put(world: World, data: bytes, name: str) -> str:
    world.lake.objects.put(f"_lakefs/{name}", data)
    return name


def written(world: World, ranges: Iterable[RangeInfo]) -> str:
    made = write_metarange([*ranges])
    return put(world, made.data, made.id)


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def run(world: World) -> Run:
    return world.plan()


@pytest.fixture
def ids(world: World) -> dict[str, str]:
    """Metaranges by the letters of the ranges that they name."""
    return {name: written(world, map(info, name)) for name in ("ab", "bc", "cd", "de", "a", "b", "e")}


def test_a_metarange_that_is_missing_stops_the_run(run: Run, ids: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="f" * 64):
        read_files(run.reader, [ids["ab"], "f" * 64])


def test_a_file_that_is_another_metarange_or_none_stops_the_run(world: World, run: Run) -> None:
    other = put(world, write_metarange([info("a")]).data, "f" * 64)
    made = write_table([(b"az", info("a").value().encode())])
    for name in (other, put(world, made.data, made.id)):
        with pytest.raises(FormatError):
            read_files(run.reader, [name])
