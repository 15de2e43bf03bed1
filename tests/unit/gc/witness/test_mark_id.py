"""The id of the last complete mark: a server with one of the namespace's ids passes, whatever step a kill came at."""

from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError, RefusedError, UnavailableError, WitnessError
from dredge.gc.run import open_state
from dredge.gc.witness import owner
from dredge.gc.witness.owner import (
    KEY,
    MARK_ID,
    PLANNED,
    WITHOUT_ID,
    MarkId,
    MarkIds,
    Site,
    compare_ids,
    read_block,
    read_ids,
    read_owner,
    write_id,
)
from dredge.gc.witness.people import add_alias, consent_without_id
from dredge.runs.consents import read_consents
from tests.support.faulty import CrashError
from tests.support.gc import World, make_world
from tests.support.second_server import busy_production, copy_of

START = MarkId(value="x", run_id="x", at=make_world().lake.clock.now)


def site_of(world: World, run_id: str = "run") -> Site:
    return Site(open_state(world.lake.namespace), world.client, "lake", run_id)


def kill_while_writing(world: World, monkeypatch: pytest.MonkeyPatch, at: int, run_id: str) -> None:
    done = [0]
    honest = owner._replace

    def step() -> None:
        done[0] += 1
        if done[0] == at:
            raise CrashError

    def replace(*arguments: Any) -> Any:
        step()
        return honest(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, "_replace", replace)
        world.client.before = lambda name, _arguments: step() if name == "set_metadata" else None
        with pytest.raises(CrashError):
            write_id(site_of(world, run_id))
    world.client.before = lambda _name, _arguments: None


@pytest.mark.parametrize("again_at", [1, 2, 3])
@pytest.mark.parametrize("crash_at", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 1, 2], ids=["the first id", "the second", "the third"])
def test_after_a_kill_at_any_write_of_an_id_the_server_passes_and_a_copy_without_it_does_not(
    before: int, crash_at: int, again_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    copy = copy_of(world)
    for number in range(before):
        assert write_id(site_of(world, f"run-{number}"))
    kill_while_writing(world, monkeypatch, crash_at, "killed")
    assert compare_ids(site_of(world)).passes
    assert compare_ids(site_of(copy)).passes == (before == 0)
    kill_while_writing(world, monkeypatch, again_at, "killed again")
    assert compare_ids(site_of(world)).passes
    assert write_id(site_of(world, "the next"))
    assert compare_ids(site_of(world)).passes
    assert not compare_ids(site_of(copy)).passes


@pytest.mark.parametrize(
    ("ids", "value", "passes"),
    [
        (MarkIds(), None, True),
        (MarkIds(), "of another namespace", True),
        (MarkIds(intent=START), None, True),
        (MarkIds(intent=START), "x", True),
        (MarkIds(intent=START), "y", False),
        (MarkIds(last=START), None, False),
        (MarkIds(last=START), "x", True),
        (MarkIds(last=START), "y", False),
    ],
)
def test_what_passes(ids: MarkIds, value: str | None, passes: bool) -> None:
    assert ids.passes(value) == passes


def test_other_keys_of_the_metadata_remain_and_no_key_is_deleted() -> None:
    world = make_world()
    world.client.set_metadata("lake", {"team": "a", ".lakefs.last.import.timestamp": "1"})
    world.rules(30)
    world.age(days=2)
    run = world.collected()
    assert world.client.metadata("lake") == {
        "team": "a",
        ".lakefs.last.import.timestamp": "1",
        KEY: run.plan.run_id,
        PLANNED: run.plan.run_id,
    }


def test_an_id_that_the_server_does_not_keep_is_an_error() -> None:
    world = make_world()
    world.client.set_metadata = lambda *_: True  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        write_id(site_of(world))
    assert read_ids(open_state(world.lake.namespace)).last is None


def test_a_record_that_another_process_changed_meanwhile_is_not_replaced() -> None:
    world = make_world()
    state = open_state(world.lake.namespace)

    def meanwhile(name: str, _arguments: object) -> None:
        if name == "set_metadata":
            world.client.before = lambda _name, _arguments: None
            write_id(site_of(world, "the other"))

    world.client.before = meanwhile
    with pytest.raises(ConflictError):
        write_id(site_of(world, "this one"))
    last = read_ids(state).last
    assert last is not None
    assert last.run_id == "the other"


def test_a_damaged_or_newer_record_stops_the_run() -> None:
    world = busy_production()
    world.collect()
    state = open_state(world.lake.namespace)
    for data in (b"no json", b'{"format": 99}'):
        state.put(MARK_ID, data)
        with pytest.raises(FormatError, match=MARK_ID):
            world.collect(dry_run=True)


def test_without_the_right_a_run_that_deletes_needs_a_persons_consent_given_once() -> None:
    world = busy_production()
    world.client.may_update = False
    garbage = world.orphan("data/x/orphan")
    world.age(days=2)
    world.collect(dry_run=True)
    with pytest.raises(RefusedError, match="fs:UpdateRepository"):
        world.plan()
    assert garbage in world.data()
    consent_without_id("lake", "the security team grants it next week", "ada", world.client)
    world.collect()
    assert garbage not in world.data()
    again = world.orphan("data/x/again")
    world.collect_after(days=2)
    assert again not in world.data()
    (consent,) = read_consents(open_state(world.lake.namespace), WITHOUT_ID)
    assert (consent.who, consent.what) == ("ada", {"url": world.client.url})
    assert read_block(open_state(world.lake.namespace)) is None


def test_a_right_that_is_lost_while_a_run_waits_stops_the_deletion() -> None:
    world = busy_production()
    garbage = world.orphan("data/x/orphan")
    world.age(days=2)
    run = world.plan()
    world.client.may_update = False
    with pytest.raises(RefusedError, match="fs:UpdateRepository"):
        world.run(run)
    assert garbage in world.data()


def test_metadata_that_cannot_be_read_needs_the_consent_too() -> None:
    world = busy_production()
    world.collect()
    garbage = world.orphan("data/x/orphan")
    world.age(days=2)
    world.client.metadata = lambda _repository: None  # type: ignore[method-assign]
    world.client.may_update = False
    with pytest.raises(RefusedError, match="fs:UpdateRepository"):
        world.plan()
    consent_without_id("lake", "an old server", client=world.client)
    world.collect()
    assert garbage not in world.data()


def test_a_failing_call_stops_the_run_and_is_no_missing_right() -> None:
    world = busy_production()
    run = world.plan()

    def fail(name: str, _arguments: object) -> None:
        if name == "set_metadata":
            raise UnavailableError("500 predicate failed")

    world.client.before = fail
    with pytest.raises(UnavailableError):
        world.run(run)
    world.client.before = lambda _name, _arguments: None
    world.collect_after(days=1)
    assert read_block(open_state(world.lake.namespace)) is None


def test_a_moved_server_goes_on_with_an_alias() -> None:
    world = busy_production()
    world.collect()
    world.client.url = "https://new.example.com"
    world.age(days=1)
    with pytest.raises(WitnessError, match="--alias"):
        world.plan()
    told = add_alias("lake", "the new name", "ada", world.client)
    assert told["owner"]["aliases"] == ("https://new.example.com",)
    world.collect()
    world.client.url = told["before"]["environment"]["url"]
    world.collect_after(days=1)
    world.assert_readable()


def test_a_copy_does_not_become_an_alias() -> None:
    world = busy_production()
    copy = copy_of(world, "http://rehearsal:8000")
    world.collect()
    with pytest.raises(RefusedError):
        add_alias("lake", "I am the same", client=copy.client)
    owner = read_owner(open_state(world.lake.namespace))
    assert owner is not None
    assert owner.aliases == ()
