"""Three clocks decide what is young: the store's, this machine's, and those of the lakeFS servers."""

from datetime import timedelta

import pytest

from dredge.errors import ConfigError, NotFoundError, RefusedError
from dredge.gc.config import GCConfig
from dredge.lakefs import LakeFSClient
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import GravelerError
from tests.support.gc import World, make_world
from tests.support.http import scripted_server
from tests.support.lakes import no_sleep


def server_with_clock(world: World, **off: float) -> Catalog:
    lake = world.lake
    return Catalog(
        lake.kv, lake.open_namespace, lambda: lake.clock() + timedelta(**off), lake.settings, sleep=no_sleep
    )


@pytest.mark.parametrize("minutes", [0, 4.9])
def test_a_late_link_through_a_server_whose_clock_is_behind_finds_its_object(minutes: float) -> None:
    world = make_world()
    world.upload("a", b"1")
    slow = server_with_clock(world, minutes=-5)
    full = world.lake.catalog.addresses.get_physical_address("lake", "main", "late")
    address = world.orphan(full.removeprefix(f"{world.lake.namespace}/"), b"linked late")
    world.collect_after(hours=24, minutes=minutes, seconds=5)
    slow.addresses.link_physical_address(
        "lake", "main", "late", physical_address=full, checksum="c", size_bytes=11
    )
    assert world.lake.read("late") == b"linked late"
    world.age(days=2)
    world.collect(mode="optimized")
    assert address in world.data()


def test_when_the_minimum_age_is_over_no_server_within_the_bounds_links_any_more() -> None:
    """Both as wrong as is let pass, in opposite directions: the address was handed out by a clock that is
    ahead, and is linked by one that is behind."""
    world = make_world()
    bound = GCConfig(repository="lake").safety.clock_skew_seconds_max
    ahead, behind = server_with_clock(world, seconds=2 * bound), server_with_clock(world, seconds=-2 * bound)
    full = ahead.addresses.get_physical_address("lake", "main", "late")
    address = world.orphan(full.removeprefix(f"{world.lake.namespace}/"), b"x")
    world.age(hours=25, seconds=1)
    with pytest.raises(GravelerError, match="expired"):
        behind.addresses.link_physical_address(
            "lake", "main", "late", physical_address=full, checksum="c", size_bytes=1
        )
    world.collect()
    assert address not in world.data()


def test_a_minimum_age_without_a_margin_for_clocks_is_refused() -> None:
    assert GCConfig(repository="lake").min_age_hours == 25
    with pytest.raises(ConfigError, match="unsafe_min_age_seconds"):
        GCConfig(repository="lake", min_age_hours=24.9)


@pytest.mark.parametrize(
    ("off", "passes"), [(300, True), (-301, True), (303, False), (-303, False), (3600, False)]
)
def test_a_server_whose_clock_differs_from_the_stores_stops_the_run(off: float, passes: bool) -> None:
    """A Date header has whole seconds, so a second more than the bound may pass."""
    world = make_world()
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    world.client.catalog = server_with_clock(world, seconds=off)
    if passes:
        assert world.plan().plan.server_ahead_seconds == pytest.approx(off, abs=1)
        return
    with pytest.raises(RefusedError, match="clock"):
        world.plan()
    assert orphan in world.data()


def test_answers_without_a_date_are_told_and_the_run_goes_on_with_its_margin() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.age(days=2)
    world.client.clock = lambda: None  # type: ignore[method-assign, assignment]
    context = world.plan()
    assert context.plan.server_ahead_seconds is None
    world.run(context)


def test_the_time_of_an_answer_is_its_date_header_and_nothing_else() -> None:
    with scripted_server() as server:
        client = LakeFSClient(server.endpoint, "key", "secret")
        server.answer = lambda _: (200, {"results": [], "pagination": {}})
        found = client.clock()
        assert found is not None
        assert found.tzinfo is not None
        server.answer = lambda _: (401, {"message": "error authenticating request"})
        with pytest.raises(ConfigError):
            client.clock()
        server.answer = lambda _: (404, {"message": "not found"})
        with pytest.raises(NotFoundError):
            client.clock()
