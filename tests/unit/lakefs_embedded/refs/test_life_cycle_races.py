"""Two processes at one repository name, in every order of their operations, with and without a death."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from dredge.kv import Store
from dredge.lakefs.files.records import Branch, Repository, Tag, new_staging_token
from lakefs_embedded.errors import NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError
from lakefs_embedded.refs.branches import Branches
from lakefs_embedded.refs.life_cycle import LifeCycle
from lakefs_embedded.refs.tags import Tags
from tests.support.faulty import CrashError
from tests.support.life_cycles import NAME, Ground, clean_handed_over
from tests.support.turns import Explored, Scene, TurnStore
from tests.support.turns import explore as explore_scene

pytestmark = pytest.mark.hunt

# DREDGE_EXPLORE=all also runs schedules that differ only in the order of what cannot notice each other.
REDUCE = os.environ.get("DREDGE_EXPLORE") != "all"

STEPS: tuple[LifeCycle, ...] = ("step-1", "step-2")
ALL: tuple[LifeCycle, ...] = ("lakefs", *STEPS)
REFUSALS = (NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError, CrashError)
Check = Callable[[Mapping[str, object]], None]


def explore(scene: Callable[[], Scene], crashes: int = 0) -> Explored:
    return explore_scene(scene, crashes=crashes, reduce=REDUCE)


def require_sound(ground: Ground) -> None:
    """A record in use has its branch and commit; in step 2 nothing else is out of the cleaner's reach."""
    record = ground.record()
    if record is not None and record.state == "active":
        keys = {row.key.split(b"/")[0] for row in ground.rows(record.partition)}
        assert keys >= {b"branches", b"commits"}, keys
        assert ground.server().get(NAME) == record


def require_reachable(ground: Ground) -> None:
    """Every partition is named by the record or handed over to the cleaner (step 2)."""
    record = ground.record()
    named = ground.handed_over() | ({record.partition} if record else set())
    assert ground.lives() <= named


def created(results: Mapping[str, object]) -> list[Repository]:
    return [result for result in results.values() if isinstance(result, Repository)]


@pytest.mark.parametrize("crashes", [0, 1, 2])
@pytest.mark.parametrize("life_cycle", ALL)
def test_create_against_create(life_cycle: LifeCycle, crashes: int) -> None:
    def scene() -> Scene:
        ground = Ground(life_cycle)

        def check(results: Mapping[str, object]) -> None:
            require_sound(ground)
            winners = created(results)
            losers = [result for result in results.values() if isinstance(result, NotUniqueError)]
            assert len(winners) <= 1
            if not crashes:
                assert (len(winners), len(losers)) == (1, 1)
            if winners:
                assert ground.record() == winners[0]
            if life_cycle == "step-2":
                assert len(ground.lives()) <= 1  # the loser wrote nothing
                require_reachable(ground)

        return Scene(ground.kv, {"a": ground.create, "b": ground.create}, check)

    explored = explore(scene, crashes=crashes)
    assert {("ok", "NotUniqueError"), ("NotUniqueError", "ok")} <= explored.outcomes.keys()


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("life_cycle", ALL)
def test_create_against_delete(life_cycle: LifeCycle, exists: bool, crashes: int) -> None:
    def scene() -> Scene:
        ground = Ground(life_cycle)
        old = ground.populated().partition if exists else None

        def check(results: Mapping[str, object]) -> None:
            require_sound(ground)
            assert all(
                isinstance(r, REFUSALS) or r is None for r in results.values() if r not in created(results)
            )
            deletes = results["delete"] is None
            for new in created(results):
                # It is there, unless it was this very life that the deletion found.
                gone = ground.record() is None
                assert gone or ground.record() == new or results["delete"] is not None
                assert not gone or (deletes and not exists)
                assert old is None or gone or new.partition != old
            if exists and deletes:
                assert ground.record() is None or ground.record() in created(results) or crashes
                if life_cycle == "step-1":
                    assert old not in ground.lives()
            if life_cycle == "step-2":
                require_reachable(ground)
                clean_handed_over(ground.kv, lambda partition: is_named(ground, partition))
                require_sound(ground)

        actors = {
            "create": ground.create,
            "delete": lambda kv: ground.server(kv).delete(NAME),
        }
        return Scene(ground.kv, actors, check)

    explored = explore(scene, crashes=crashes)
    assert len(explored.outcomes) >= 2
    if exists:
        assert ("ok", "ok") in explored.outcomes  # a name is free again as soon as its deletion has ended


def is_named(ground: Ground, partition: bytes) -> bool:
    record = ground.record()
    return record is not None and record.partition == partition


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("life_cycle", STEPS)
def test_delete_against_delete(life_cycle: LifeCycle, crashes: int) -> None:
    def scene() -> Scene:
        ground = Ground(life_cycle)
        partition = ground.create().partition

        def check(results: Mapping[str, object]) -> None:
            finished = [result for result in results.values() if result is None]
            assert all(isinstance(r, REFUSALS) for r in results.values() if r is not None)
            if finished:
                assert ground.state == "none"
                assert ground.handed_over() == ({partition} if life_cycle == "step-2" else set())
                assert ground.lives() == ({partition} if life_cycle == "step-2" else set())
            assert finished or crashes
            if ground.state == "in-deletion":  # both may have died; a third one finishes
                ground.server().delete(NAME)
            assert ground.state == "none" or not finished

        delete = lambda kv: ground.server(kv).delete(NAME)  # noqa: E731
        return Scene(ground.kv, {"a": delete, "b": delete}, check)

    explored = explore(scene, crashes=crashes)
    assert ("ok", "ok") in explored.outcomes


def delete_and_create_again(life_cycle: LifeCycle) -> Callable[[], Scene]:
    """One deletion, beside another one after which the name is created again and used."""

    def scene() -> Scene:
        ground = Ground(life_cycle)
        ground.create()

        def again(kv: Store) -> Repository:
            ground.server(kv).delete(NAME)
            return ground.create(kv)

        def check(results: Mapping[str, object]) -> None:
            for new in created(results):
                lost = ground.record() is None
                deleted = new.partition not in ground.lives() or new.partition in ground.handed_over()
                assert not lost or deleted, "the new life has lost its record"

        actors = {"slow": lambda kv: ground.server(kv).delete(NAME), "again": again}
        return Scene(ground.kv, actors, check)

    return scene


@pytest.mark.parametrize("life_cycle", STEPS)
def test_a_deletion_that_stalls_does_not_touch_the_next_life_of_the_name(life_cycle: LifeCycle) -> None:
    explored = explore(delete_and_create_again(life_cycle))
    assert ("ok", "ok") in explored.outcomes


@pytest.mark.parametrize("life_cycle", STEPS)
def test_a_deletion_is_of_the_life_that_it_found(life_cycle: LifeCycle) -> None:
    """It lost the race for its mark to another deletion, and the name has begun a new life since."""

    def scene() -> Scene:
        ground = Ground(life_cycle)
        old = ground.create()
        found: list[Repository] = []

        class Noting(TurnStore):
            def get(self, partition: bytes, key: bytes) -> bytes:
                value = super().get(partition, key)
                found.append(Repository.decode(value))
                return value

        def slow(kv: Store) -> None:
            ground.server(Noting(kv, lambda _: "")).delete(NAME)  # type: ignore[arg-type]

        def again(kv: Store) -> Repository:
            ground.server(kv).delete(NAME)
            return ground.create(kv)

        def check(results: Mapping[str, object]) -> None:
            for new in created(results):
                if found and found[0].instance_uid == old.instance_uid:
                    assert ground.record() == new

        return Scene(ground.kv, {"slow": slow, "again": again}, check)

    explored = explore(scene)
    assert ("ok", "RepositoryNotFoundError") in explored.outcomes


def test_a_deletion_of_todays_server_that_stalls_destroys_the_next_life() -> None:
    with pytest.raises(AssertionError, match="the new life has lost its record"):
        explore(delete_and_create_again("lakefs"))


@pytest.mark.parametrize("later", [0, 120])
def test_step_2_create_against_a_failed_creates_end(later: int) -> None:
    """A create, a process that thinks it failed and deletes it, and the cleaner: nothing is left behind."""

    def scene() -> Scene:
        ground = Ground("step-2")

        def give_up(kv: Store) -> None:
            ground.server(kv, later=timedelta(seconds=later)).delete(NAME)
            clean_handed_over(kv, lambda partition: is_named(ground, partition))

        def check(results: Mapping[str, object]) -> None:
            require_sound(ground)
            require_reachable(ground)
            for new in created(results):
                assert ground.record() == new or results["give-up"] is None
            if ground.state == "in-deletion":
                ground.server().delete(NAME)
            clean_handed_over(ground.kv, lambda partition: is_named(ground, partition))
            assert ground.lives() == ({ground.server().get(NAME).partition} if ground.record() else set())

        return Scene(ground.kv, {"create": ground.create, "give-up": give_up}, check)

    explored = explore(scene)
    assert ("ok", "RepositoryNotFoundError") in explored.outcomes
    assert (("RepositoryNotFoundError", "ok") in explored.outcomes) == (later == 120)


def test_step_2_nothing_gets_out_of_the_cleaners_reach_whoever_comes_when() -> None:
    """A create, a process (or two, with DREDGE_EXPLORE=all) that deletes it for dead, and a cleaner beside them."""

    def scene() -> Scene:
        ground = Ground("step-2")

        def give_up(kv: Store) -> None:
            ground.server(kv, later=timedelta(seconds=120)).delete(NAME)

        def clean(kv: Store) -> None:
            clean_handed_over(kv, lambda partition: is_named(ground, partition))

        def check(results: Mapping[str, object]) -> None:
            require_sound(ground)
            require_reachable(ground)

        actors = {"create": ground.create, "give-up": give_up, "clean": clean}
        return Scene(ground.kv, actors if REDUCE else actors | {"give-up-2": give_up}, check)

    explored = explore_scene(scene)
    assert len(explored.outcomes) >= 4


@pytest.mark.parametrize("crashes", [0, 1])
@pytest.mark.parametrize("life_cycle", ALL)
def test_branch_creation_against_deletion(life_cycle: LifeCycle, crashes: int) -> None:
    """A branch and a tag that come too late exist, and nobody can reach them."""

    def scene() -> Scene:
        ground = Ground(life_cycle)
        old = ground.create()

        def make(kv: Store) -> None:
            found = ground.server(kv).get(NAME)
            branches_of(kv, ground).create(found, Branch("late", "0" * 64, new_staging_token(NAME, "late")))
            Tags(kv).create(found, Tag("late", "0" * 64))

        def check(results: Mapping[str, object]) -> None:
            if results["delete"] is not None:
                assert crashes
                ground.server().delete(NAME)
            with pytest.raises(RepositoryNotFoundError):
                ground.server().get(NAME)
            new = ground.create()
            assert new.partition != old.partition
            kinds = sorted(row.key.split(b"/")[0] for row in ground.rows(new.partition))
            assert kinds == [b"branches", b"commits"]
            names = [branch.name for branch in branches_of(ground.kv, ground).scan(new)]
            assert names == ["main"]
            if life_cycle == "step-2":
                require_reachable(ground)

        actors = {"delete": lambda kv: ground.server(kv).delete(NAME), "make": make}
        return Scene(ground.kv, actors, check)

    explored = explore(scene, crashes=crashes)
    assert {("ok", "ok"), ("ok", "RepositoryInDeletionError")} <= explored.outcomes.keys()


def branches_of(kv: Store, ground: Ground) -> Branches:
    return Branches(kv, ground.clock, timedelta())
