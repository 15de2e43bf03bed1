"""Folders of old runs go, also those of purges and of runs about metadata; what is needed or not proved ours stays."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from dredge.errors import UnavailableError
from dredge.gc.run import Run
from dredge.gc.save_report.clean_up import ROOT
from dredge.runs import cleanup, ledger
from dredge.runs.cleanup import OwnFilesOutput
from dredge.storage import open_versions
from dredge.undo.deletions import read_deletions
from dredge.xid import new_descending_xid
from tests.support.gc import World, make_world, summary_of
from tests.support.own_files import below, folders, grown, removing, run
from tests.support.undo import WAYS, purge, restore, store_of, undo_world
from tests.support.wrong_runs import state_of
from tests.unit.gc.metadata.test_collecting import collect, left_metarange, name, noted, there
from tests.unit.gc.metadata.test_report import left_behind

OF_LIST = {"pending", "newest_list.json"}


def left_in(world: World, place: str) -> set[str]:
    return {
        key.removeprefix(f"{ROOT}/{place}/").partition("/")[0] for key in world.lake.keys(f"{ROOT}/{place}/")
    }


def _purged(world: World) -> str:
    run_id = new_descending_xid(world.lake.clock())
    plan = {"run_id": run_id, "repository": world.lake.repository, "namespace": world.lake.namespace}
    world.lake.objects.put(f"{ROOT}/dredge/purges/{run_id}/plan.json", json.dumps(plan).encode())
    return run_id


def test_folders_of_purges_go_but_for_the_newest_and_those_of_somebody_else() -> None:
    world, kept, _ = undo_world("quarantine", keep_runs_days=30)
    world.collect()
    old = _purged(world)
    world.age(days=1)
    late = _purged(world)
    plan = json.loads(world.lake.objects.get(f"{ROOT}/dredge/purges/{late}/plan.json"))
    foreign = {}
    for what, change in {"another repository's": {"repository": "other"}, "of nobody": None}.items():
        world.age(seconds=5)
        run_id = new_descending_xid(world.lake.clock())
        foreign[what] = run_id
        said = b"[1]" if change is None else json.dumps({**plan, "run_id": run_id, **change}).encode()
        world.lake.objects.put(f"{ROOT}/dredge/purges/{run_id}/plan.json", said)
    world.age(days=31)
    newest = _purged(world)
    world.lake.objects.put(f"{ROOT}/dredge/purges/{late}/note", b"somebody went on with it")
    world.collect(dry_run=True)
    assert left_in(world, "dredge/purges") == {old, late, newest, *foreign.values()}
    world.collect()
    assert left_in(world, "dredge/purges") == {late, newest, *foreign.values()}
    world.collect_after(days=60)
    assert left_in(world, "dredge/purges") == {newest, *foreign.values()}, (
        "it will be of use to nobody; nor is it large"
    )
    assert world.data() == kept


def test_a_folder_with_copies_of_metadata_stays_until_they_are_purged_and_the_newest_note_stays() -> None:
    world = noted()
    with_copies = collect(world).run_id
    world.age(days=91)
    world.collect(mode="clean")
    note = collect(world, metadata="report").run_id
    assert left_in(world, "dredge/metadata") == {with_copies, note, *OF_LIST}
    world.age(seconds=5)
    assert collect(world).counts["purged_copies"] == 2
    world.age(days=91)
    world.collect(mode="clean")
    world.age(days=91)
    world.collect(mode="clean")
    (newest,) = left_in(world, "dredge/metadata") - OF_LIST
    assert newest not in (with_copies, note)


def test_parts_of_earlier_lists_of_metadata_go_a_week_later_and_those_of_the_list_stay() -> None:
    world = noted()
    (old,) = pending_parts(world)
    left_behind(world.lake.objects, "other")
    world.age(seconds=5)
    world.collect()  # else it is a commit that no mark has seen
    world.age(days=2)
    collect(world, metadata="report")
    (newer,) = pending_parts(world) - {old}
    world.collect_after(days=9)
    assert pending_parts(world) == {newer}
    assert collect(world).counts["deleted_files"] == 4


def pending_parts(world: World) -> set[str]:
    return {key for key in world.lake.keys(f"{ROOT}/dredge/metadata/pending/") if key.endswith(".parquet")}


def test_copies_of_metadata_go_when_no_run_puts_them_back_any_more() -> None:
    world = noted()
    gone = collect(world)
    copies = {key for key in world.lake.keys("") if "/quarantine/_lakefs/" in key}
    assert len(copies) == 2
    world.age(days=29)
    assert "purged_copies" not in collect(world, keep_copies_days=30).counts
    world.age(days=2)
    for settings in ({"dry_run": True}, {"metadata": "report"}):
        assert "purged_copies" not in collect(world, keep_copies_days=30, **settings).counts
    assert collect(world, keep_copies_days=30, dry_run=True).counts["old_copies"] == 2
    assert copies <= set(world.lake.keys(""))
    before = there(world)
    purged = collect(world, keep_copies_days=30)
    assert (purged.counts["purged_copies"], purged.counts["kept_copies"]) == (2, 0)
    assert not copies & set(world.lake.keys(""))
    # Nor is anything left of them as an older version.
    assert all(not open_versions(world.lake.namespace).versions(key) for key in copies)
    assert there(world) == before
    assert world.lake.read("a") == b"1"
    assert gone.counts["deleted_files"] == 2


def test_an_old_copy_of_what_a_commit_names_stays() -> None:
    """It is too old to be put back by itself; a person may want it."""
    world = noted()
    collect(world)
    world.age(days=31)
    name(world, left_metarange())
    found = collect(world, keep_copies_days=30)
    assert "purged_copies" not in found.counts, "what a commit names is missing, so nothing goes"
    collect(world)
    assert left_metarange() in there(world), "a run that looks further back puts it back"
    world.age(days=1)
    purged = collect(world, keep_copies_days=30)
    assert (purged.counts.get("purged_copies", 0), purged.counts["kept_copies"]) == (0, 2)


def test_a_copy_in_a_bucket_that_keeps_no_versions_by_now_stays() -> None:
    world = noted()
    collect(world)
    store_of(world).older = None
    world.age(days=100)
    found = collect(world)
    assert "purged_copies" not in found.counts
    assert any("versions" in text for text in found.warnings)


def test_run_folders_go_when_they_are_older_than_asked_for() -> None:
    world = make_world(keep_runs_days=30)
    runs = []
    for number in range(5):
        grown(world, number)
        runs.append(run(world, mode="clean").plan.run_id)
        world.age(days=14)
    # The last run was made when the first was 61 days old, the second 46, the third 30.5, the fourth 15.
    assert folders(world) == set(runs[3:])
    facts = summary_of(
        Run.open(f"{world.lake.namespace}/{ROOT}/unified/{runs[-1]}"), OwnFilesOutput.STEP
    ).counts
    assert (facts["own_run_folders"], facts["folders_left"]) == (1, 0)


def test_folders_that_are_not_proved_to_be_this_repositorys_runs_stay() -> None:
    world = make_world()
    grown(world, 0)
    old = run(world).folder
    plan = old.read_json("plan.json")
    made: dict[str, set[str]] = {}
    for what, change in {
        "vendor": None,
        "other repository": {"repository": "other"},
        "other namespace": {"namespace": "memory://elsewhere/lake"},
        "unknown format": {"format": 99},
        "other place": {"run_uri": "memory://elsewhere/run"},
        "other run": {},
        "damaged": {"created_at": "?"},
        "nothing": {"config": None},
    }.items():
        world.age(seconds=5)
        run_id = new_descending_xid(world.lake.clock())
        mine = {"run_id": run_id, "run_uri": f"{world.lake.namespace}/{ROOT}/unified/{run_id}"}
        if what == "other run":
            mine["run_id"] = plan["run_id"]
        made[what] = {f"{ROOT}/unified/{run_id}/{file}" for file in ("summary.json", "plan.json")}
        world.lake.objects.put(f"{ROOT}/unified/{run_id}/summary.json", b"{}")
        content = b"[1]" if change is None else json.dumps({**plan, **mine, **change}).encode()
        if what == "vendor":
            made[what] = {f"{ROOT}/unified/{run_id}/summary.json"}
        else:
            world.lake.objects.put(f"{ROOT}/unified/{run_id}/plan.json", content)
    world.lake.objects.put(f"{ROOT}/unified/not-a-run/plan.json", json.dumps(plan).encode())
    for number in range(2):
        world.age(days=100)
        grown(world, number + 1)
        run(world, mode="clean")
    assert old.run_id not in folders(world)
    left = below(world, "unified/")
    assert {what: files <= left for what, files in made.items()} == dict.fromkeys(made, True)
    assert f"{ROOT}/unified/not-a-run/plan.json" in left


def test_a_removal_that_was_interrupted_is_ended_by_a_later_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "_KEYS", 1)
    world = make_world()
    grown(world, 0)
    old = run(world, mode="clean").plan.run_id
    for number in range(1, 3):
        world.age(days=100)
        grown(world, number)

        def die(_number: int, keys: Sequence[str]) -> None:
            if any(key.endswith("plan.json") for key in keys):
                raise UnavailableError("died")

        with removing(die) as removed:
            run(world, mode="clean")
    assert any(old in key for key in removed)
    assert below(world, f"unified/{old}/") == {f"{ROOT}/unified/{old}/plan.json"}
    grown(world, 9)
    run(world, mode="clean")
    assert old not in folders(world)


# Ledgers are kept until what they name cannot come back any more; then they go with their records.


RUNS = "_lakefs/retention/gc/unified"
STATE = "_lakefs/retention/gc/dredge"


def _swept(world: World) -> Run:
    run = world.collected()
    for _ in range(2):  # another run is the newest one, and the state names it
        world.collect_after(days=2)
    return run


def _is_left(world: World, run: Run) -> bool:
    return bool(world.lake.keys(f"{RUNS}/{run.plan.run_id}/"))


def test_the_ledger_of_what_can_still_come_back_is_kept() -> None:
    world, _, _ = undo_world("versions", keep_runs_days=7)
    run = _swept(world)
    world.collect_after(days=60)
    assert _is_left(world, run)
    purge(world)
    for _ in range(2):
        world.collect_after(days=10)
    assert not _is_left(world, run)
    assert not read_deletions(state_of(world)).found
    assert not world.lake.keys(f"{STATE}/deletions/")


@pytest.mark.parametrize("way", WAYS)
def test_the_record_of_a_killed_sweep_is_kept_for_what_its_ledger_does_not_tell(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _, gone = undo_world(way, keep_runs_days=7)
    run = world.plan()

    honest = ledger.write_raw

    def killed(*arguments: Any) -> None:
        if ledger.DELETED in arguments[-1]["outcome"].to_pylist():
            raise KeyboardInterrupt
        honest(*arguments)

    monkeypatch.setattr(ledger, "write_raw", killed)
    with pytest.raises(KeyboardInterrupt):
        world.run(run)
    monkeypatch.undo()
    untold = gone - world.data()
    assert untold
    world.collect_after(days=2)
    world.age(days=60)
    purge(world)
    for _ in range(2):
        world.collect_after(days=10)
    assert run.plan.run_id in [item.run_id for item in read_deletions(state_of(world)).found]
    restore(world, run, all=True)
    assert untold <= world.data()
