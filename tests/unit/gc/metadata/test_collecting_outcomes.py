"""What a collection of metadata leaves alone, puts back, purges and tells: each condition and bound by itself."""

from typing import Any

import pytest

from dredge.errors import ConfigError, LeaseHeldError, UnavailableError
from dredge.gc.metadata import deleting
from dredge.gc.metadata.collecting import collect_metadata
from dredge.gc.metadata.config import MetadataConfig
from dredge.gc.metadata.deleting import DELETED, FAILED, KEPT, MetadataOutput
from dredge.gc.metadata.files import NamesReader
from dredge.gc.run import METADATA_RUNS
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
from dredge.storage import DeleteOutcome, open_deleter, open_writer
from tests.support.gc import World
from tests.support.killing import before_first_write_of, failing_writes
from tests.support.memory_store import MemoryVersionDeleter
from tests.unit.gc.metadata.test_collecting import (
    COPIES,
    collect,
    is_readable,
    left_metarange,
    name,
    noted,
    there,
    versioned,
)
from tests.unit.gc.metadata.test_report import left_behind

RUNS = f"{METADATA_RUNS}/"


def folder_of_newest(world: World) -> RunFolder:
    newest = min(key.removeprefix(RUNS).partition("/")[0] for key in world.lake.keys(RUNS))
    return RunFolder(open_writer(f"{world.lake.namespace}/{RUNS}{newest}"), newest)


def rows(world: World, kind: str) -> list[tuple[str, str]]:
    folder = folder_of_newest(world)
    step = MetadataOutput.STEP
    summary = folder.last_summary(step) or folder.read_incomplete(step)
    assert summary is not None
    parts = [part for part in summary.parts if f"/{kind}-" in part.name]
    return [(row["name"], row["outcome"]) for part in parts for row in folder.read_part(part).to_pylist()]


def counted(summary: StepSummary, *outcomes: str) -> list[int]:
    return [summary.counts[f"{outcome}_files"] for outcome in outcomes]


def names_left() -> tuple[str, str]:
    world = versioned()
    metarange = left_metarange()
    (info,) = [info for info in left_behind(world.lake.objects) if info != metarange]
    return metarange, info


def test_a_file_that_could_not_be_copied_stays_and_the_rest_goes() -> None:
    world, (metarange, only) = noted(), names_left()
    with failing_writes(COPIES + only, UnavailableError("503")), pytest.raises(UnavailableError, match=only):
        collect(world)
    assert rows(world, "ledger") == [(only, FAILED), (metarange, DELETED)]
    assert only in there(world)
    assert metarange not in there(world)


def test_a_file_that_could_not_be_deleted_is_told_of(stand_in: Any) -> None:
    world = noted()
    before, denied = there(world), DeleteOutcome("x", "failed", "AccessDenied")
    stand_in(MemoryVersionDeleter._delete, lambda *_: denied)
    with pytest.raises(UnavailableError, match=r"2 files.*AccessDenied"):
        collect(world)
    assert there(world) == before
    assert {outcome for _, outcome in rows(world, "ledger")} == {FAILED}
    incomplete = folder_of_newest(world).read_incomplete(MetadataOutput.STEP)
    assert incomplete is not None
    assert incomplete.status == "partial"


def test_what_a_commit_names_since_the_first_look_stays_and_the_rest_goes() -> None:
    world = versioned()
    other = left_behind(world.lake.objects, "other")
    world.age(days=2)
    world.collect(dry_run=True)
    noted(world)
    with before_first_write_of(COPIES, lambda: name(world, left_metarange())):
        summary = collect(world)
    assert counted(summary, DELETED, KEPT) == [2, 2]
    assert {key for key, outcome in rows(world, "ledger") if outcome == KEPT} == {*names_left()}
    assert is_readable(world, left_metarange())
    assert other.isdisjoint(there(world))


def test_a_collection_whose_lease_went_to_somebody_else_deletes_nothing() -> None:
    world = noted()
    before = there(world)

    def take_the_lease() -> None:
        world.age(hours=2)
        world.plan()

    with before_first_write_of(COPIES, take_the_lease), pytest.raises(LeaseHeldError):
        collect(world)
    assert there(world) == before


@pytest.mark.parametrize("older", [0, 1])
def test_a_metarange_as_young_as_may_be_keeps_the_ranges_it_names(older: int) -> None:
    """One that a commit has just written, and that names ranges which are older."""
    world, (metarange, only) = noted(), names_left()
    content = world.lake.objects.get(f"_lakefs/{metarange}")
    world.lake.objects.put(f"_lakefs/{metarange}", content)
    world.age(hours=25)
    world.age(microseconds=older)
    world.collect(dry_run=True)
    summary = collect(world)
    assert summary.counts["garbage_files"] == 2 * older
    assert summary.counts["confirmed_files"] == 0, (
        "the metarange is another version, so what it names stays with it"
    )
    assert {metarange, only} <= there(world)


def test_a_file_without_versions_to_go_stays() -> None:
    """It has a delete marker: somebody deletes and writes it."""
    world, (metarange, only) = versioned(), names_left()
    content = world.lake.objects.get(f"_lakefs/{only}")
    open_deleter(world.lake.namespace).delete([f"_lakefs/{only}"])
    world.lake.objects.put(f"_lakefs/{only}", content)
    world.age(days=2)
    noted(world)
    summary = collect(world)
    assert (summary.counts["garbage_files"], summary.counts["confirmed_files"]) == (2, 1)
    assert only in there(world)
    assert metarange not in there(world)


def test_a_report_that_deletes_nothing_is_the_default_and_copies_are_looked_for_a_week_at_least() -> None:
    usual = MetadataConfig(repository="lake")
    assert (usual.metadata, usual.dry_run, usual.keep_copies_days) == ("report", True, 90)
    assert MetadataConfig(repository="lake", keep_copies_days=7).keep_copies_days == 7
    for wrong in ({"keep_copies_days": 6.9}, {"min_age_hours": 24}, {"metadata": "purge"}):
        with pytest.raises(ConfigError):
            MetadataConfig.from_params({"repository": "lake", **wrong})
    with pytest.raises(ConfigError):
        MetadataConfig(repository="lake", keep_copies_days=6.9)


def test_ranges_of_a_metarange_that_comes_back_are_no_garbage() -> None:
    world, (metarange, only) = noted(), names_left()
    content = world.lake.objects.get(f"_lakefs/{only}")
    collect(world)
    world.lake.objects.put(f"_lakefs/{only}", content)
    world.age(days=2)
    name(world, metarange)
    summary = collect(world, metadata="report")
    assert (summary.counts["put_back_files"], summary.counts["garbage_files"]) == (1, 0)


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
    world, honest = noted(), deleting.delete_files

    def naming(*arguments: Any) -> Any:
        name(world, left_metarange())
        return honest(*arguments)

    monkeypatch.setattr(deleting, "delete_files", naming)
    summary = collect(world)
    assert (summary.counts["deleted_files"], summary.counts["put_back_files"]) == (2, 2)
    assert is_readable(world, left_metarange())


def test_without_the_records_there_is_no_folder_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREDGE_KV_URL", raising=False)
    world = versioned()
    with pytest.raises(ConfigError, match="kv_conn_id"):
        collect_metadata(MetadataConfig(repository="lake"), None, world.client, None, world.lake.clock)
    assert world.lake.keys(RUNS) == []
