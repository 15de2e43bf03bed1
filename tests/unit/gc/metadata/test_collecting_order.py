"""The order of what a collection of metadata does: what commits name comes back before anything counts as garbage, and
what went is written down before anything else may fail."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata import collecting
from dredge.gc.metadata.collecting import collect_metadata
from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.named import NamesReader
from dredge.gc.metadata.output import MetadataOutput
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files import messages
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world
from tests.support.undo import store_of
from tests.unit.gc.metadata.test_collecting import (
    collect,
    is_readable,
    left_metarange,
    name,
    noted,
    there,
    versioned,
)
from tests.unit.gc.metadata.test_collecting_outcomes import RUNS, copies, folder_of_newest, names_left
from tests.unit.gc.metadata.test_report import Records


def ledger(world: World) -> list[tuple[str, str]]:
    """Outcomes and messages in the newest run's ledger."""
    folder, step = folder_of_newest(world), MetadataOutput.STEP
    summary = folder.last_summary(step) or folder.read_incomplete(step)
    assert summary is not None
    (part,) = [part for part in summary.parts if "/ledger-" in part.name]
    return [(row["outcome"], row["message"]) for row in folder.read_part(part).to_pylist()]


def test_ranges_of_a_metarange_that_comes_back_are_no_garbage() -> None:
    world, (metarange, only) = noted(), names_left()
    content = world.lake.objects.get(f"_lakefs/{only}")
    collect(world)
    world.lake.objects.put(f"_lakefs/{only}", content)
    world.age(days=2)
    name(world, metarange)
    summary = collect(world, metadata="report")
    assert (summary.counts["put_back_files"], summary.counts["garbage_files"]) == (1, 0)


def at_work(world: World) -> None:
    partition = world.lake.catalog.refs.repositories.get("lake").partition
    world.lake.kv.set(partition, b"imports/i", messages.encode(messages.ImportStatusData(id="i")))


def test_where_nothing_may_go_nothing_is_chosen_or_copied() -> None:
    world = noted()
    at_work(world)
    summary = collect(world)
    assert (summary.counts["garbage_files"], summary.counts["chosen_files"]) == (2, 0)
    assert copies(world) == set()


def test_where_nothing_is_chosen_there_is_no_ledger() -> None:
    summary = collect(versioned())
    assert summary.counts["chosen_files"] == 0
    assert "deleted_files" not in summary.counts
    assert MetadataOutput.of(summary).ledger == []


def test_only_tables_by_their_names_keep_ranges_while_they_are_young() -> None:
    world, (metarange, _) = noted(), names_left()
    world.lake.objects.put("_lakefs/copied-by-hand", world.lake.objects.get(f"_lakefs/{metarange}"))
    assert collect(world, metadata="report").counts["garbage_files"] == 2


def test_a_run_that_died_before_its_note_is_passed_over() -> None:
    world = versioned()
    collect(world, metadata="report")
    world.age(hours=1)
    world.lake.objects.put(f"{RUNS}{new_descending_xid(world.lake.clock())}/plan.json", b"{}")
    world.age(days=2)
    assert collect(world).counts["chosen_files"] == 2


def test_a_note_of_nothing_has_the_columns_of_any_other() -> None:
    world = make_world()
    summary = collect(world, metadata="report")
    rows = folder_of_newest(world).read_part(MetadataOutput.of(summary).garbage)
    assert (rows.num_rows, rows.schema) == (0, collecting.GARBAGE)


def after_copies(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    honest = collecting.copy_aside  # type: ignore[attr-defined]

    def copy(*arguments: Any) -> Any:
        found = honest(*arguments)
        action()
        return found

    monkeypatch.setattr(collecting, "copy_aside", copy)


def test_the_ledger_says_why_a_file_stayed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = noted()
    after_copies(monkeypatch, lambda: name(world, left_metarange()))
    collect(world)
    assert ledger(world) == [("kept", "a commit names it by now")] * 2
    monkeypatch.undo()
    world = noted()
    after_copies(monkeypatch, lambda: setattr(store_of(world).older, "suspended", True))
    collect(world)
    assert {outcome for outcome, _ in ledger(world)} == {"kept"}
    assert all("suspended" in message for _, message in ledger(world))


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


def test_what_is_left_to_do_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    world = noted()

    def failing(_namespace: str, files: Any, *_: Any) -> Any:
        return [collecting.Taken(file, "failed", "Slow") for file in files]  # type: ignore[attr-defined]

    monkeypatch.setattr(collecting, "delete_files", failing)
    with pytest.raises(UnavailableError):
        collect(world)
    folder = folder_of_newest(world)
    assert folder.last_summary(MetadataOutput.STEP) is None
    found = folder.read_incomplete(MetadataOutput.STEP)
    assert found is not None
    assert found.status == "partial"


def test_server_and_records_are_those_of_the_environment_where_none_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = versioned()
    monkeypatch.setattr(LakeFSClient, "from_env", lambda: world.client)
    monkeypatch.setattr(KVAccess, "from_env", lambda: Records(world.lake.kv))
    found = collect_metadata(MetadataConfig(repository="lake"), clock=world.lake.clock)
    assert found.counts["garbage_files"] == 2


def test_a_range_that_came_back_is_not_told_of_twice() -> None:
    world, (metarange, _) = noted(), names_left()
    content = world.lake.objects.get(f"_lakefs/{metarange}")
    collect(world)
    world.lake.objects.put(f"_lakefs/{metarange}", content)
    name(world, metarange)
    summary = collect(world, metadata="report")
    assert (summary.counts["put_back_files"], len(summary.warnings)) == (1, 1)


def test_what_an_import_made_is_no_garbage() -> None:
    world = noted()
    partition = world.lake.catalog.refs.repositories.get("lake").partition
    status = messages.ImportStatusData(id="i", completed=True, metarange_id=left_metarange())
    world.lake.kv.set(partition, b"imports/i", messages.encode(status))
    summary = collect(world)
    assert (summary.counts["garbage_files"], summary.warnings) == (0, ())
    assert is_readable(world, left_metarange())


def test_without_the_records_there_is_no_folder_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREDGE_KV_URL", raising=False)
    world = versioned()
    with pytest.raises(ConfigError, match="kv_conn_id"):
        collect_metadata(MetadataConfig(repository="lake"), None, world.client, None, world.lake.clock)
    assert world.lake.keys(RUNS) == []
