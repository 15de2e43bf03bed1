"""Folders of purges and of runs about metadata go with old run folders, and what somebody still needs of them stays."""

from __future__ import annotations

import json

from dredge.gc.save_report.own_files import ROOT
from dredge.graveler.xid import new_descending_xid
from dredge.storage import open_versions
from tests.support.gc import World
from tests.support.undo import purge, restore, store_of, undo_world
from tests.unit.gc.metadata.test_collecting import collect, left_metarange, name, noted, there


def folders(world: World, place: str) -> set[str]:
    return {
        key.removeprefix(f"{ROOT}/{place}/").partition("/")[0] for key in world.lake.keys(f"{ROOT}/{place}/")
    }


def test_folders_of_purges_go_but_for_the_newest_and_those_of_somebody_else() -> None:
    world, kept, _ = undo_world("quarantine", keep_runs_days=30)
    world.collect()
    old = purge(world, dry_run=True).run_id
    world.age(days=1)
    late = purge(world, dry_run=True).run_id
    plan = json.loads(world.lake.objects.get(f"{ROOT}/dredge/purges/{late}/plan.json"))
    foreign = {}
    for what, change in {"another repository's": {"repository": "other"}, "of nobody": None}.items():
        world.age(seconds=5)
        run_id = new_descending_xid(world.lake.clock())
        foreign[what] = run_id
        said = b"[1]" if change is None else json.dumps({**plan, "run_id": run_id, **change}).encode()
        world.lake.objects.put(f"{ROOT}/dredge/purges/{run_id}/plan.json", said)
    world.age(days=31)
    newest = purge(world, dry_run=True).run_id
    world.lake.objects.put(f"{ROOT}/dredge/purges/{late}/note", b"somebody went on with it")
    world.collect(dry_run=True)
    assert folders(world, "dredge/purges") == {old, late, newest, *foreign.values()}
    world.collect()
    assert folders(world, "dredge/purges") == {late, newest, *foreign.values()}
    world.age(days=60)
    world.collect()
    assert folders(world, "dredge/purges") == {newest, *foreign.values()}, (
        "it will be of use to nobody; nor is it large"
    )
    assert world.data() == kept


def test_restores_go_with_the_run_that_they_took_back() -> None:
    world, kept, gone = undo_world("quarantine", keep_runs_days=30)
    run = world.plan()
    world.run(run)
    restore(world, run, all=True, keep_days=100)
    world.age(days=5)
    world.collect()
    world.age(days=40)
    purge(world, run=run.plan.run_id, older_than_days=1)
    assert any("/restores/" in key for key in world.lake.keys(f"{ROOT}/unified/{run.plan.run_id}/"))
    world.collect()
    left = set(world.lake.keys(f"{ROOT}/unified/{run.plan.run_id}/"))
    assert left, "copies of what is pinned are not purged, so the folder with their ledger stays"
    assert world.data() == kept | gone
    world.age(days=100)
    world.collect()
    purge(world, run=run.plan.run_id, older_than_days=1)
    world.collect()
    assert not set(world.lake.keys(f"{ROOT}/unified/{run.plan.run_id}/"))
    assert world.data() == kept


def test_a_folder_with_copies_of_metadata_stays_until_they_are_purged_and_the_newest_note_stays() -> None:
    world = noted()
    with_copies = collect(world).run_id
    world.age(days=91)
    world.collect(mode="clean")
    note = collect(world, metadata="report").run_id
    assert folders(world, "dredge/metadata") == {with_copies, note}
    world.age(seconds=5)
    assert collect(world).counts["purged_copies"] == 2
    world.age(days=91)
    world.collect(mode="clean")
    world.age(days=91)
    world.collect(mode="clean")
    (newest,) = folders(world, "dredge/metadata")
    assert newest not in (with_copies, note)


def test_copies_of_metadata_go_when_no_run_puts_them_back_any_more() -> None:
    world = noted()
    run = collect(world)
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
    assert run.counts["deleted_files"] == 2


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
    assert any("keeps no versions" in text for text in found.warnings)
