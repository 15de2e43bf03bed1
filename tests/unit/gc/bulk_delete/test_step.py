"""Each round of deleting begins with a look at everything that it stands on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from dredge.errors import OvertakenError, RefusedError
from dredge.gc.bulk_delete.step import bulk_delete
from dredge.runs.tries import StepTry
from tests.support.gc import World, busy_world, deleting, summary_of


@pytest.mark.parametrize("step", ["list_committed", "check_limits"])
def test_a_round_of_deleting_begins_with_an_unbroken_chain(step: str) -> None:
    """A result that is made anew while the re-check reads is not the one that these candidates stand on."""
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)

    def do_again() -> None:
        summary = summary_of(run, step)
        run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))

    with (
        world.during("prepare_uncommitted", do_again),
        deleting() as requests,
        pytest.raises(RefusedError, match="do not belong together"),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_sweep_that_was_overtaken_while_it_checked_again_opens_no_gate() -> None:
    """Its workers would find the gate closed to them; it does not come to that."""
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)

    def try_again() -> None:
        StepTry.claim(run.folder.writer, "bulk_delete")

    with (
        world.during("prepare_uncommitted", try_again),
        deleting() as requests,
        pytest.raises(OvertakenError),
    ):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert sum(batch.num_rows for batch in run.folder.writer.list("bulk_delete/_watch/")) == 0
    assert world.data() == kept | gone


def made_on_it(world: World) -> None:
    """Make a bare repository on the same namespace; refs that are restored to it name what was garbage."""
    world.lake.catalog.repositories.create_repository("restored", world.lake.namespace, bare=True)


def made_elsewhere(world: World) -> None:
    """The repository is deleted and made again on another namespace."""
    (ours,) = world.client.repositories()
    elsewhere = replace(ours, namespace=f"{ours.namespace}-2")
    world.client.repositories = lambda: [elsewhere]  # type: ignore[method-assign]


@pytest.mark.parametrize("make", [made_on_it, made_elsewhere])
def test_a_repository_that_came_into_the_namespace_since_the_guards_looked_stops_the_sweep(
    make: Callable[[World], None],
) -> None:
    """A run that waited for a person, or is tried again, sweeps hours after them."""
    world, kept, gone = busy_world()
    run = world.plan()
    world.mark(run)
    make(world)
    with deleting() as requests, pytest.raises(RefusedError, match=r"overlaps with|is another repository"):
        bulk_delete(run, world.runner)
    assert requests.made == []
    assert world.data() == kept | gone


def test_a_repository_that_comes_into_the_namespace_during_the_sweep_stops_it() -> None:
    safety = {"heads_every_seconds": 0.01, "gate_every_seconds": 0.01}
    world, kept, gone = busy_world(safety=safety)
    run = world.plan()
    world.mark(run)

    def come(number: int, _keys: object) -> None:
        if number == 1:
            made_on_it(world)
            time.sleep(0.5)

    with deleting(before=come) as requests, pytest.raises(RefusedError, match="overlaps with"):
        bulk_delete(run, world.runner)
    assert len(requests.made) == 1
    assert len(gone & world.data()) > len(gone) - 3
    assert kept <= world.data()
