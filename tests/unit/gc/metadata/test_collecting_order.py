"""The order of what a collection of metadata does: what commits name comes back before anything counts as garbage, and
what went is written down before anything else may fail."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.metadata import collecting
from dredge.gc.metadata.collecting import collect_metadata
from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.named import NamesReader
from tests.unit.gc.metadata.test_collecting import (
    collect,
    is_readable,
    left_metarange,
    name,
    noted,
    there,
    versioned,
)
from tests.unit.gc.metadata.test_collecting_outcomes import RUNS, names_left


def test_ranges_of_a_metarange_that_comes_back_are_no_garbage() -> None:
    world, (metarange, only) = noted(), names_left()
    content = world.lake.objects.get(f"_lakefs/{only}")
    collect(world)
    world.lake.objects.put(f"_lakefs/{only}", content)
    world.age(days=2)
    name(world, metarange)
    summary = collect(world, metadata="report")
    assert (summary.counts["put_back_files"], summary.counts["garbage_files"]) == (1, 0)


def test_only_tables_by_their_names_keep_ranges_while_they_are_young() -> None:
    world, (metarange, _) = noted(), names_left()
    world.lake.objects.put("_lakefs/copied-by-hand", world.lake.objects.get(f"_lakefs/{metarange}"))
    assert collect(world, metadata="report").counts["garbage_files"] == 2


def test_what_went_is_written_down_before_anything_else_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    world, look, looks = noted(), NamesReader.read, [0]

    def failing(self: NamesReader) -> Any:
        looks[0] += 1
        if looks[0] == 3:
            raise UnavailableError("the store is away")
        return look(self)

    monkeypatch.setattr(NamesReader, "read", failing)
    with pytest.raises(UnavailableError, match="away"):
        collect(world)
    assert left_metarange() not in there(world)
    assert [key for key in world.lake.keys(RUNS) if "/ledger-" in key]


def test_what_a_commit_names_while_it_goes_is_put_back_by_the_same_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, honest = noted(), collecting.delete_files  # type: ignore[attr-defined]

    def naming(*arguments: Any) -> Any:
        name(world, left_metarange())
        return honest(*arguments)

    monkeypatch.setattr(collecting, "delete_files", naming)
    summary = collect(world)
    assert (summary.counts["deleted_files"], summary.counts["put_back_files"]) == (2, 2)
    assert is_readable(world, left_metarange())


def test_without_the_records_there_is_no_folder_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREDGE_KV_URL", raising=False)
    world = versioned()
    with pytest.raises(ConfigError, match="kv_conn_id"):
        collect_metadata(MetadataConfig(repository="lake"), None, world.client, None, world.lake.clock)
    assert world.lake.keys(RUNS) == []
