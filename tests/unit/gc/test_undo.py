"""A run is opened for who wants to take deletions back only where it deleted, and in that very repository."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.errors import ConfigError, NotFoundError
from dredge.gc import undo
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, release_lease, slice_listing, subtract
from dredge.gc.undo import collected_of, open_swept, side_run
from dredge.storage import StorageOptions
from tests.support.gc import World
from tests.support.undo import small_world


def swept() -> tuple[World, Run, set[str]]:
    world, _, gone = small_world("quarantine")
    run = world.plan()
    world.run(run)
    return world, run, gone


def test_a_run_is_opened_as_its_plan_made_it_and_for_its_own_repository_alone() -> None:
    world, run, gone = swept()
    here = world.client.repository("lake")
    for repository in (None, here, replace(here, namespace=f"{here.namespace}/")):
        found = open_swept(run.plan.run_uri, repository)
        assert (found.way, found.below, found.folder.uri) == ("quarantine", ("data/",), run.plan.run_uri)
        rows = [key for part in found.candidates for key in run.folder.read_part(part)["address"].to_pylist()]
        assert set(rows) == gone
    for other in (replace(here, name="another"), replace(here, namespace=f"{here.namespace}2")):
        with pytest.raises(ConfigError, match=run.plan.run_id):
            open_swept(run.plan.run_uri, other)


def test_a_run_that_deleted_nothing_is_not_opened() -> None:
    world, _, _ = small_world("quarantine")
    dry = world.plan(dry_run=True)
    world.run(dry)
    with pytest.raises(ConfigError, match=dry.plan.run_id):
        open_swept(dry.plan.run_uri)
    world.age(minutes=1)
    run = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed):
        step(run, world.runner)
    with pytest.raises(ConfigError, match=run.plan.run_id):
        open_swept(run.plan.run_uri)
    subtract(run, world.runner)
    assert open_swept(run.plan.run_uri).candidates
    release_lease(run)


def test_a_repository_opens_runs_of_its_own_by_their_ids() -> None:
    world, run, _ = swept()
    found = collected_of("lake", world.client)
    assert (found.repository, found.uri) == ("lake", world.lake.namespace)
    assert found.state.uri == run.state.uri
    assert found.run_uri_of(run.plan.run_id) == run.plan.run_uri
    assert found.open_run(run.plan.run_uri).folder.uri == run.plan.run_uri
    with pytest.raises(NotFoundError):
        collected_of("nothing", world.client)
    other, stranger, _ = swept()
    assert other.lake.namespace != world.lake.namespace
    with pytest.raises(ConfigError, match=stranger.plan.run_id):
        found.open_run(stranger.plan.run_uri)


def test_runs_are_reached_as_the_repository_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world, run, _ = swept()
    options, used = StorageOptions(), []
    honest = undo.read_plan  # type: ignore[attr-defined]

    def read(uri: str, given: StorageOptions | None) -> object:
        used.append(given)
        return honest(uri, given)

    monkeypatch.setattr(undo, "read_plan", read)
    collected_of("lake", world.client, options).open_run(run.plan.run_uri)
    assert [given is options for given in used] == [True]


def test_without_a_client_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, _ = swept()
    monkeypatch.setattr(undo.LakeFSClient, "from_env", lambda: world.client)  # type: ignore[attr-defined]
    assert collected_of("lake").uri == world.lake.namespace
    with side_run(
        "lake", lambda namespace: f"{namespace}/side", "metadata", {}, clock=world.lake.clock
    ) as run:
        assert run.folder.uri.startswith(f"{world.lake.namespace}/side/")
    monkeypatch.setattr(undo.LakeFSClient, "from_env", lambda: pytest.fail("asked"))  # type: ignore[attr-defined]
    assert collected_of("lake", world.client).uri == world.lake.namespace
    with side_run(
        "lake",
        lambda namespace: f"{namespace}/side",
        "metadata",
        {},
        None,
        world.client,
        None,
        world.lake.clock,
    ) as run:
        assert run.plan.repository == "lake"
