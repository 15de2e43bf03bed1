"""Lost commits are listed, made known again with all that they name, or given up."""

import pytest
from msgspec import structs

from dredge.errors import ConfigError, FormatError, LeaseHeldError, RefusedError, WitnessError
from dredge.gc.run import open_state
from dredge.gc.witness.owner import read_block
from dredge.gc.witness.people import KNOWN, METARANGE, RECORD, UNNAMED, LostCommits, forget_lost, lift_block
from dredge.gc.witness.record import FORGET_LOST, POINTER
from dredge.runs.consents import read_consents
from dredge.runs.run import release_lease
from dredge.storage import open_deleter
from tests.support.gc import World, make_world
from tests.support.lost_database import CatalogWriter, back_up, restore


def find(world: World) -> LostCommits:
    return LostCommits.find(world.client, "lake", 30)


def writer(world: World) -> CatalogWriter:
    assert isinstance(world.client, CatalogWriter)
    return world.client


def refuse_and_lift(world: World) -> None:
    """Do a run that is refused, for the server lost the id of the last mark at the least, and lift its block."""
    if read_block(open_state(world.lake.namespace)) is None:
        with pytest.raises(WitnessError):
            world.collect()
    lift_block("lake", "it was looked into", client=world.client)


def lost_days() -> tuple[World, dict[str, bytes]]:
    """Two days of commits, on a branch and on main, that a run saw and the database lost; what `main` read."""
    world = make_world(rules=30)
    world.commit("a", b"old")
    world.collect_after(days=2)
    backup = back_up(world)
    for number in range(4):
        world.upload(f"new/{number}", b"after the backup %d" % number)
    world.lake.commit("first day", metadata={"ticket": "7"})
    world.lake.catalog.branches.create_branch("lake", "side", "main")
    world.commit("side", b"on the side", "side")
    world.age(days=1)
    world.commit("a", b"changed")
    world.collect_after(days=1, hours=2)
    read = {path: world.lake.read(path) for path in world.lake.paths()}
    restore(world, backup)
    world.age(days=1)
    return world, read


def test_c1_what_was_committed_reads_again_with_the_ids_that_it_had() -> None:
    world, read = lost_days()
    with pytest.raises(WitnessError):
        world.collect()
    lost = find(world)
    heads = {item.branches[0]: item.name for item in lost.found if item.branches}
    made = list(lost.restore(writer(world), heads.values()))
    assert {item.how for item in made} == {RECORD}
    assert {item.commit_id for item in made} == set(heads.values())
    (main,) = (item.branch for item in made if item.name == heads["main"])
    assert {path: world.lake.read(path, main) for path in world.lake.paths(main)} == read
    side = next(item.branch for item in made if item.name == heads["side"])
    assert world.lake.read("side", side) == b"on the side"
    assert not find(world).found
    refuse_and_lift(world)
    world.collect_after(days=3)
    assert {path: world.lake.read(path, main) for path in world.lake.paths(main)} == read


def test_c1_without_the_call_for_records_the_content_is_committed_and_the_next_mark_passes() -> None:
    world, read = lost_days()
    lost, client = find(world), writer(world)
    client.makes_records = False
    made = list(lost.restore(client, [item.name for item in lost.found]))
    assert {item.how for item in made} == {METARANGE}
    main = next(item for item in lost.found if "main" in item.branches).name
    branch = next(item.branch for item in made if item.name == main)
    assert {path: world.lake.read(path, branch) for path in world.lake.paths(branch)} == read
    assert [item.commit_id for item in find(world).restore(client, [])] == []
    assert not find(world).found
    refuse_and_lift(world)
    world.collect()
    world.assert_readable(branch)


def test_making_commits_known_goes_on_where_it_was_killed() -> None:
    world, _ = lost_days()
    client = writer(world)
    main = next(item.name for item in find(world).found if "main" in item.branches)

    def killed(name: str, _given: tuple[object, ...]) -> None:
        if name == "create_branch":
            raise KeyboardInterrupt

    client.before = killed
    with pytest.raises(KeyboardInterrupt):
        list(find(world).restore(client, [main]))
    client.before = lambda _name, _given: None
    assert main not in [item.name for item in find(world).found], "its record is made"
    world.lake.catalog.branches.create_branch("lake", "again", main)
    world.assert_readable("again")


def test_a_commit_whose_fields_are_not_recorded_is_made_from_its_metarange() -> None:
    world, read = lost_days()
    lost = find(world)
    main = next(item for item in lost.found if "main" in item.branches)
    lost.found = [structs.replace(main, commit=None)]
    (made,) = lost.restore(writer(world), [main.name])
    assert made.how == METARANGE
    assert {path: world.lake.read(path, made.branch) for path in world.lake.paths(made.branch)} == read
    assert main.name not in [item.name for item in find(world).found]


def test_c11_a_commit_that_no_run_saw_reads_again() -> None:
    world = make_world(rules=30)
    world.commit("a", b"old")
    world.collect_after(days=2)
    backup = back_up(world)
    world.commit("new", b"the day's work")
    world.age(hours=11)
    restore(world, backup)
    world.collect_after(days=2)
    (item,) = find(world).found
    assert (item.kind, item.objects) == (UNNAMED, 2)
    (made,) = find(world).restore(writer(world), [item.name])
    assert (made.how, world.lake.read("new", made.branch)) == (METARANGE, b"the day's work")
    assert not find(world).found
    again = list(find(world).restore(writer(world), []))
    assert not again
    world.collect_after(days=60)
    world.assert_readable(made.branch)


def test_a_name_that_is_not_lost_is_refused_before_anything_is_made() -> None:
    world, _ = lost_days()
    name = find(world).found[0].name
    with pytest.raises(ConfigError):
        list(find(world).restore(writer(world), [name, "f" * 64]))
    assert [branch.id for branch in world.client.branches("lake")] == ["main"]


@pytest.mark.parametrize("damage", ["gone", "damaged"])
def test_a_commit_without_its_metarange_is_listed_and_not_made_and_can_be_given_up(damage: str) -> None:
    world, _ = lost_days()
    item = next(item for item in find(world).found if "main" in item.branches)
    if damage == "gone":
        open_deleter(world.lake.namespace).delete([f"_lakefs/{item.metarange_id}"])
    else:
        world.lake.objects.put(f"_lakefs/{item.metarange_id}", b"damaged")
    assert next(found for found in find(world).found if found.name == item.name).objects is None
    with pytest.raises(RefusedError):
        list(find(world).restore(writer(world), [item.name]))
    assert [branch.id for branch in world.client.branches("lake")] == ["main"]
    assert item.name in [found.name for found in forget_lost(world.client, "lake", "it is gone", 30)[1]]


def test_what_a_person_gives_up_is_garbage_and_the_statement_is_kept() -> None:
    world, _ = lost_days()
    with pytest.raises(WitnessError):
        world.collect()
    before = world.data()
    consent, found = forget_lost(world.client, "lake", "Monday's state is wanted", 30)
    assert len(found) == 3
    assert [item.why for item in read_consents(open_state(world.lake.namespace), FORGET_LOST)] == [
        consent.why
    ]
    refuse_and_lift(world)
    world.collect_after(days=2)
    assert len(before - world.data()) == 6
    world.assert_readable()
    assert not find(world).found


def test_expired_commits_lost_with_the_database_are_given_up_all_at_once() -> None:
    world = make_world(rules=1)
    world.commit("a", b"old")
    world.collect_after(days=2)
    backup = back_up(world)
    for number in range(9):
        world.commit("b", b"%d" % number)
    world.collect_after(days=3)
    restore(world, backup)
    with pytest.raises(WitnessError):
        world.collect()
    assert [item.kind for item in find(world).found] == [KNOWN] * 9
    forget_lost(world.client, "lake", "Monday's state is wanted", 30)
    refuse_and_lift(world)
    for _ in range(3):
        world.collect_after(days=1)
    world.assert_readable()


def test_what_is_lost_after_a_statement_is_refused_again() -> None:
    world, _ = lost_days()
    forget_lost(world.client, "lake", "Monday's state is wanted", 30)
    refuse_and_lift(world)
    world.age(days=2)
    backup = back_up(world)
    world.commit("b", b"later")
    world.collect_after(days=2)
    restore(world, backup)
    assert [item.kind for item in find(world).found] == [KNOWN]
    with pytest.raises(WitnessError):
        world.collect()


def test_a_second_older_backup_does_not_lose_what_nobody_gave_up() -> None:
    world = make_world(rules=30)
    world.commit("a", b"old")
    world.collect_after(days=2)
    backups, kept = [back_up(world)], set()
    for day in range(2):
        kept.add(world.upload(f"day/{day}", b"of day %d" % day))
        commit = world.lake.commit(f"day {day}").id
        world.collect_after(days=1)
    backups.append(back_up(world))
    world.upload("last", b"given up")
    last = world.lake.commit("last").id
    world.collect_after(days=2)
    restore(world, backups[1])
    with pytest.raises(WitnessError):
        world.collect()
    assert [item.name for item in forget_lost(world.client, "lake", "not wanted", 30)[1]] == [last]
    lift_block("lake", "it was looked into", client=world.client)
    restore(world, backups[0])
    found = [item.name for item in find(world).found]
    assert (len(found), commit in found, last in found) == (2, True, False)
    refuse_and_lift(world)
    world.age(days=2)
    with pytest.raises(WitnessError):
        world.collect()
    assert kept <= world.data()


def test_what_another_server_does_not_know_cannot_be_given_up_and_no_run_may_be_at_work() -> None:
    world, _ = lost_days()
    state = open_state(world.lake.namespace)
    run = world.plan(dry_run=True)
    with pytest.raises(LeaseHeldError):
        forget_lost(world.client, "lake", "not wanted", 30)
    release_lease(run)
    world.client.url = "http://rehearsal:8000"
    with pytest.raises(RefusedError):
        forget_lost(world.client, "lake", "not wanted", 30)
    assert not read_consents(state, FORGET_LOST)


def test_an_unnamed_metarange_that_was_given_up_counts_again_once_it_is_written_again() -> None:
    world = make_world(rules=30)
    world.commit("a", b"old")
    world.collect_after(days=2)
    backup = back_up(world)
    new = world.upload("new", b"the day's work")
    metarange = world.lake.commit("the day's work").metarange_id
    restore(world, backup)
    world.age(days=2)
    forget_lost(world.client, "lake", "not wanted", 30)
    world.age(days=1)
    key = f"_lakefs/{metarange}"
    world.lake.objects.put(key, world.lake.objects.get(key))
    world.collect_after(days=2)
    assert new in world.data()


def test_a_damaged_record_stops_runs_until_a_person_gives_it_up() -> None:
    world = make_world(rules=30)
    world.commit("a", b"old")
    world.collect_after(days=2)
    orphan = world.orphan("data/x/orphan")
    world.age(days=2)
    open_state(world.lake.namespace).put(POINTER, b"{")
    with pytest.raises(FormatError):
        world.collect()
    assert orphan in world.data()
    forget_lost(world.client, "lake", "the file is damaged", 30)
    world.collect()
    assert orphan not in world.data()
