"""Branch heads are looked at while workers delete: a moved one stops them, and so does a look that fails."""

from __future__ import annotations

import json

import pytest

from dredge.errors import UnavailableError
from dredge.gc.bulk_delete.head_watch import look_at_heads, watching_heads
from tests.support.gc import make_world


def test_heads_at_commits_that_were_subtracted_are_no_reason_to_stop() -> None:
    world = make_world()
    world.upload("a")
    commit = world.lake.commit()
    assert look_at_heads(world.plan(), {commit.id}) is None


def test_a_head_at_another_commit_stops_the_sweep() -> None:
    world = make_world()
    world.upload("a")
    commit = world.lake.commit()
    run = world.plan()
    world.upload("b")
    world.lake.commit()
    assert look_at_heads(run, {commit.id}) == "main is at a commit that was not checked"


@pytest.mark.parametrize("keep_tags", [True, False])
def test_a_new_tag_stops_the_sweep_where_tags_keep_data(keep_tags: bool) -> None:
    world = make_world()
    world.upload("a")
    first = world.lake.commit()
    world.upload("b")
    second = world.lake.commit()
    run = world.plan(keep_tags=keep_tags)
    world.lake.catalog.tags.create_tag(world.lake.repository, "v1", first.id)
    assert (look_at_heads(run, {second.id}) is not None) is keep_tags


@pytest.mark.parametrize("error", [UnavailableError("503"), ZeroDivisionError("a bug"), KeyError()])
def test_a_look_that_fails_for_any_reason_stops_the_sweep(error: Exception) -> None:
    world = make_world()
    run = world.plan()

    def fail(_repository: str) -> None:
        raise error

    world.client.branches = fail  # type: ignore[assignment, method-assign]
    with pytest.raises(UnavailableError, match="branch heads could not be looked at"):
        look_at_heads(run, set())


def test_a_no_stops_the_sweep_though_heads_and_namespaces_are_as_they_were() -> None:
    world = make_world()
    world.upload("a")
    commit = world.lake.commit()
    run = world.plan()
    answer = ""
    with watching_heads(run, {commit.id}, "watch.json", lambda: answer) as watch:
        assert watch.found is None
        answer = "eve rejected it"
        assert not watch.look()
    assert watch.found == "eve rejected it"
    seen = json.loads(run.folder.writer.get("watch.json"))
    assert (seen["open"], seen["reason"]) == (False, "eve rejected it")
