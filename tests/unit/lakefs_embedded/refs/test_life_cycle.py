"""The two steps of the design: flows, and what is left when a process dies after any of its operations."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakefs_embedded.errors import NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError
from lakefs_embedded.kv import Store
from lakefs_embedded.refs.repositories import LifeCycle
from tests.support.life_cycles import NAME, Ground, clean_handed_over, crash_everywhere

CREATION = timedelta(minutes=2)
STEPS: tuple[LifeCycle, ...] = ("step-1", "step-2")
ALL: tuple[LifeCycle, ...] = ("lakefs", *STEPS)


def creator(life_cycle: LifeCycle, bare: bool = False) -> Callable[[Store], object]:
    return lambda kv: Ground(life_cycle).create(kv, bare=bare)


def deleter(life_cycle: LifeCycle) -> Callable[[Store], object]:
    return lambda kv: Ground(life_cycle).server(kv).delete(NAME)


def populated(life_cycle: LifeCycle) -> Ground:
    ground = Ground(life_cycle)
    ground.populated()
    return ground


def names(ground: Ground) -> list[str]:
    return [found.name for found in ground.server().listed()]


def refusal(call: Callable[[], object]) -> type[Exception] | None:
    try:
        call()
    except (NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError) as error:
        return type(error)
    return None


def require_fresh(ground: Ground, old: set[bytes]) -> None:
    """Create the name again: the new life is complete and has nothing of the old ones."""
    new = ground.create()
    assert ground.server().get(NAME) == new
    assert new.partition not in old
    assert len(ground.rows(new.partition)) == 2


@pytest.mark.parametrize("life_cycle", ALL)
def test_a_repository_is_created_found_listed_deleted_and_created_again(life_cycle: LifeCycle) -> None:
    ground = Ground(life_cycle)
    first = ground.populated()
    assert ground.server().get(NAME) == first
    assert names(ground) == [NAME]
    assert refusal(ground.create) is NotUniqueError
    ground.server().delete(NAME)
    assert ground.state == "none"
    assert refusal(lambda: ground.server().get(NAME)) is RepositoryNotFoundError
    assert refusal(lambda: ground.server().delete(NAME)) is RepositoryNotFoundError
    require_fresh(ground, {first.partition})


def test_step_1_leaves_nothing_in_the_partition_and_a_server_of_today_does() -> None:
    for life_cycle, left in (("lakefs", [b"settings/protected_branches"]), ("step-1", [])):
        ground = Ground(life_cycle)
        repository = ground.populated()
        ground.server().delete(NAME)
        assert [row.key for row in ground.rows(repository.partition)] == left
        assert ground.handed_over() == set()


def test_step_2_deletes_in_four_operations_and_leaves_the_rows_to_the_cleaner() -> None:
    *_, (done, ground) = crash_everywhere(lambda: populated("step-2"), deleter("step-2"))
    assert [operation.name for operation in done] == ["get", "set_if", "set_if", "delete_if"]
    (partition,) = ground.lives()
    assert ground.handed_over() == {partition}
    assert len(ground.rows(partition)) == 6
    clean_handed_over(ground.kv, lambda _: False)
    assert ground.lives() == set()
    assert ground.handed_over() == set()


# --- creating ----------------------------------------------------------------------------------------------


def test_step_2_a_create_that_died_is_not_found_then_failed_then_deleted() -> None:
    left = []
    runs = list(crash_everywhere(lambda: Ground("step-2"), creator("step-2")))
    for _, ground in runs:
        old = ground.lives()
        left.append((ground.state, sum(len(ground.rows(partition)) for partition in old)))
        server = ground.server()
        if ground.state == "none":
            require_fresh(ground, old)
        elif ground.state == "initial":
            ground.clock.now += CREATION - timedelta(microseconds=1)
            assert refusal(lambda: server.get(NAME)) is RepositoryNotFoundError  # noqa: B023
            assert refusal(lambda: server.delete(NAME)) is RepositoryNotFoundError  # noqa: B023
            assert refusal(ground.create) is NotUniqueError
            assert names(ground) == []
            assert ground.state == "initial"
            ground.clock.now += timedelta(microseconds=1)
            assert refusal(lambda: server.get(NAME)) is RepositoryInDeletionError  # noqa: B023
            assert ground.state == "in-deletion"
            assert names(ground) == []
            assert refusal(ground.create) is NotUniqueError
            server.delete(NAME)
            require_fresh(ground, old)
            assert ground.handed_over() >= old
            live = ground.server().get(NAME).partition
            clean_handed_over(ground.kv, lambda partition: partition == live)  # noqa: B023
            assert ground.lives() == {live}
    assert left == [("none", 0), ("none", 0), ("initial", 0), ("initial", 1), ("initial", 2), ("active", 2)]
    assert [operation.name for operation in runs[-1][0]] == ["get", "set_if", "set", "set_if", "set_if"]


# --- deleting ----------------------------------------------------------------------------------------------


def test_step_2_the_start_up_scan_finishes_deletions_and_skips_what_fails() -> None:
    for _, ground in crash_everywhere(lambda: populated("step-2"), deleter("step-2")):
        before = ground.state
        ground.server().settle()
        assert ground.state == ("active" if before == "active" else "none")
        if before != "active":
            assert ground.handed_over() == ground.lives()
