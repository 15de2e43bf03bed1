"""Which ranges metaranges name: read here when they are few, else by tasks, and no metarange twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.index import metaranges
from dredge.gc.index.metaranges import Metaranges, read_files, read_metaranges, read_ranges
from dredge.gc.index.ranges import RangeFacts, Ranges
from dredge.gc.run import Run
from dredge.lakefs.files.metaranges import write_metarange
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.sstable import write_table
from dredge.runs.progress import Progress
from dredge.storage import ObjectReader
from tests.support.gc import Parallel, World, make_world

PARALLEL = Parallel()


def info(letter: str, count: int = 1) -> RangeInfo:
    key = letter.encode()
    return RangeInfo(letter * 64, key, key + b"z", 100, count)


def facts(letters: str, heads: str = "") -> Ranges:
    return {
        letter * 64: RangeFacts(1, letter.encode(), letter.encode() + b"z", letter in heads)
        for letter in letters
    }


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


def test_what_several_metaranges_name_is_united_and_what_heads_name_is_marked(
    run: Run, ids: dict[str, str]
) -> None:
    found = read_files(run.reader, [ids["ab"], ids["bc"], ids["de"]])
    assert found.ranges == facts("abcde")
    assert found.named.keys() == {ids["ab"], ids["bc"], ids["de"]}
    assert found.select([ids["bc"]]) == facts("bc")
    assert found.select(["", ids["bc"], ids["ab"]], heads=[ids["ab"]]) == facts("abc", heads="ab")
    assert found.select([""]) == found.select([]) == {}


def test_more_metaranges_join_those_that_are_known(run: Run, ids: dict[str, str]) -> None:
    found = read_files(run.reader, [ids["bc"]])
    found.add(read_files(run.reader, [ids["ab"], ids["cd"]]))
    assert {name: found.select([ids[name]]) for name in ("ab", "bc", "cd")} == {
        name: facts(name) for name in ("ab", "bc", "cd")
    }
    with pytest.raises(FormatError):
        found.add(Metaranges({"a" * 64: RangeFacts(2, b"a", b"az")}))


def test_rows_of_some_metaranges_give_them_back_and_no_others(run: Run, ids: dict[str, str]) -> None:
    found = read_files(run.reader, [ids["de"], ids["ab"], ids["bc"]])
    found.ranges |= facts("d", heads="d")
    wanted = [ids["bc"], "", ids["de"], ids["bc"]]
    tables = found.to_tables(wanted)
    again = Metaranges.from_tables(*tables)
    assert again.ranges == facts("bcde")
    assert again.named.keys() == {ids["bc"], ids["de"]}
    assert (again.select([ids["bc"]]), again.select([ids["de"]])) == (facts("bc"), facts("de"))
    in_head = tables[0].set_column(4, "head", [[True] * 4])
    assert Metaranges.from_tables(in_head, tables[1]).ranges == facts("bcde")
    nothing = Metaranges.from_tables(*found.to_tables([""]))
    assert (nothing.ranges, nothing.named) == ({}, {})


@pytest.mark.parametrize("inline", [2, 3])
def test_only_metaranges_that_are_not_known_are_read_here_or_by_tasks(
    run: Run, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    earlier = read_files(run.reader, [ids["ab"]])
    read: list[str] = []

    def noting(reader: ObjectReader, names: Sequence[str], progress: Progress | None = None) -> Metaranges:
        read.extend(names)
        return read_files(reader, names, progress)

    monkeypatch.setattr(metaranges, "read_files", noting)
    monkeypatch.setattr(metaranges, "_INLINE", inline)
    new = {ids[name] for name in ("bc", "cd", "de")}
    found = read_metaranges(run, PARALLEL, "where", [ids["ab"], "", *new], earlier)
    assert found is earlier
    assert found.named.keys() == {ids["ab"], *new}
    assert found.select([ids["ab"], *new]) == facts("abcde")
    assert sorted(read) == sorted(new)
    assert bool(files_in(run, "where")) is (inline < len(new))


def files_in(run: Run, where: str) -> set[str]:
    return {info.key.removeprefix(f"{where}/") for info in run.folder.writer.list_level(f"{where}/").objects}


def test_many_metaranges_are_as_many_tasks_as_they_are_worth(
    run: Run, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metaranges, "_INLINE", 6)
    assert read_ranges(run, PARALLEL, "where", ids.values()) == facts("abcde")
    assert len([name for name in files_in(run, "where") if "metaranges" in name]) == 7 // 6 + 1


def test_a_metarange_that_is_missing_stops_the_run(run: Run, ids: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="f" * 64):
        read_files(run.reader, [ids["ab"], "f" * 64])


def test_a_file_that_is_another_metarange_or_none_stops_the_run(world: World, run: Run) -> None:
    other = put(world, write_metarange([info("a")]).data, "f" * 64)
    made = write_table([(b"az", info("a").value().encode())])
    for name in (other, put(world, made.data, made.id)):
        with pytest.raises(FormatError):
            read_files(run.reader, [name])
