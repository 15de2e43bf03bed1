"""Refs and rules are looked at while workers delete: what only a re-check can judge stops them, and so does a look that
fails."""

import pytest

from dredge.errors import UnavailableError
from dredge.gc.bulk_delete import Subtracted
from dredge.gc.bulk_delete.watch import NewCommits, Published, look_at_refs
from dredge.gc.run import Run
from tests.support.gc import World, make_world


def checked(world: World, *commits: str, **settings: object) -> tuple[Run, Subtracted]:
    run = world.plan(**settings)
    known = {commit: world.client.commit(world.lake.repository, commit).metarange_id for commit in commits}
    return run, Subtracted(known, set(), set(), rules=world.client.rules(world.lake.repository))


@pytest.mark.parametrize("error", [UnavailableError("503"), ZeroDivisionError("a bug"), KeyError()])
def test_a_look_that_fails_for_any_reason_stops_the_sweep(error: Exception) -> None:
    world = make_world()
    run, subtracted = checked(world)

    def fail(_repository: str) -> None:
        raise error

    world.client.branches = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(UnavailableError, match="branch heads could not be checked"):
        look_at_refs(NewCommits(run, subtracted, Published(run.folder, "published")))
