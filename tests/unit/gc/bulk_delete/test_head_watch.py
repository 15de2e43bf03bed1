"""Refs and rules are looked at while workers delete: what only a re-check can judge stops them, and so does a look that
fails."""

from __future__ import annotations

import json

import pytest

from dredge.errors import UnavailableError
from dredge.gc.bulk_delete.head_watch import (
    NewCommits,
    Published,
    WatchKeys,
    look_at_refs,
    look_at_rules,
    watching_refs,
)
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.run import Run
from tests.support.gc import World, make_world

KEYS = WatchKeys(looks="watch.json", published="published")


def checked(world: World, *commits: str, **settings: object) -> tuple[Run, Subtracted]:
    """A run that knows some commits."""
    run = world.plan(**settings)
    known = {commit: world.client.commit(world.lake.repository, commit).metarange_id for commit in commits}
    return run, Subtracted(known, set(), set(), rules=world.client.rules(world.lake.repository))


def test_heads_at_commits_that_were_subtracted_are_no_reason_to_stop() -> None:
    world = make_world()
    world.upload("a")
    run, subtracted = checked(world, world.lake.commit().id)
    assert look_at_refs(NewCommits(run, subtracted, Published(run.folder, "published"))) is None


def test_a_new_commit_on_a_known_one_is_no_reason_to_stop() -> None:
    world = make_world()
    world.upload("a")
    run, subtracted = checked(world, world.lake.commit().id)
    world.upload("b")
    world.lake.commit()
    new = NewCommits(run, subtracted, Published(run.folder, "published"))
    assert look_at_refs(new) is None
    assert new.published.number == 1


@pytest.mark.parametrize("keep_tags", [True, False])
def test_a_tag_at_an_expired_commit_stops_the_sweep_where_tags_keep_data(keep_tags: bool) -> None:
    world = make_world()
    world.upload("a")
    first = world.lake.commit()
    world.upload("b")
    run, subtracted = checked(world, world.lake.commit().id, keep_tags=keep_tags)
    subtracted.expired = frozenset({first.id})
    world.lake.catalog.tags.create_tag(world.lake.repository, "v1", first.id)
    assert (
        look_at_refs(NewCommits(run, subtracted, Published(run.folder, "published"))) is not None
    ) is keep_tags


def test_other_rules_stop_the_sweep() -> None:
    world = make_world()
    world.upload("a")
    run, subtracted = checked(world, world.lake.commit().id)
    assert look_at_rules(run, subtracted) is None
    world.rules(30)
    assert look_at_rules(run, subtracted) is not None


@pytest.mark.parametrize("error", [UnavailableError("503"), ZeroDivisionError("a bug"), KeyError()])
def test_a_look_that_fails_for_any_reason_stops_the_sweep(error: Exception) -> None:
    world = make_world()
    run, subtracted = checked(world)

    def fail(_repository: str) -> None:
        raise error

    world.client.branches = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(UnavailableError, match="branch heads could not be checked"):
        look_at_refs(NewCommits(run, subtracted, Published(run.folder, "published")))


def test_a_no_stops_the_sweep_though_heads_and_namespaces_are_as_they_were() -> None:
    world = make_world()
    world.upload("a")
    run, subtracted = checked(world, world.lake.commit().id)
    answer = ""
    with watching_refs(run, subtracted, KEYS, veto=lambda: answer) as watch:
        assert watch.found is None
        answer = "eve rejected it"
        assert not watch.look()
    assert watch.found == "eve rejected it"
    seen = json.loads(run.folder.writer.get("watch.json"))
    assert (seen["open"], seen["reason"]) == (False, "eve rejected it")
