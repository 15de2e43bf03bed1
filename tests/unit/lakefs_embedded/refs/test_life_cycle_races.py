"""Two processes at one repository name, in every order of their operations, with and without a death."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from dredge.lakefs.files.records import Repository
from lakefs_embedded.errors import NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.repositories import LifeCycle
from tests.support.faulty import CrashError
from tests.support.life_cycles import NAME, Ground, clean_handed_over
from tests.support.turns import Explored, Scene
from tests.support.turns import explore as explore_scene

pytestmark = pytest.mark.hunt

# DREDGE_EXPLORE=all also runs schedules that differ only in the order of what cannot notice each other.
REDUCE = os.environ.get("DREDGE_EXPLORE") != "all"

STEPS: tuple[LifeCycle, ...] = ("step-1", "step-2")
ALL: tuple[LifeCycle, ...] = ("lakefs", *STEPS)
REFUSALS = (NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError, CrashError)


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

        actors = {"create": ground.create, "delete": lambda kv: ground.server(kv).delete(NAME)}
        return Scene(ground.kv, actors, check)

    explored = explore(scene, crashes=crashes)
    assert len(explored.outcomes) >= 2
    if exists:
        assert ("ok", "ok") in explored.outcomes  # a name is free again as soon as its deletion has ended


def is_named(ground: Ground, partition: bytes) -> bool:
    record = ground.record()
    return record is not None and record.partition == partition


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


def test_a_deletion_of_todays_server_that_stalls_destroys_the_next_life() -> None:
    with pytest.raises(AssertionError, match="the new life has lost its record"):
        explore(delete_and_create_again("lakefs"))


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
