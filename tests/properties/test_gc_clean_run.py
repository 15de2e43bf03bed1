"""On random histories a clean run deletes exactly what is listed, old and not alive; and nothing that is
alive. `DREDGE_CASES` sets the number of histories.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.depth import depth
from tests.support.gc import CatalogClient, Parallel, make_world
from tests.support.histories import History, alive, of_unnamed, operation, staged_anywhere
from tests.support.kv_views import HEAVY, Snapshots, WithoutSnapshots, never_asked, open_as
from tests.support.lakes import with_settings

CASES = depth(15, 1500, "DREDGE_CASES")


@settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    history=st.lists(operation, min_size=15, max_size=45),
    young=st.lists(operation, max_size=4),
    rules=st.sampled_from([None, 1, 5, 30]),
    small_pages=st.booleans(),
    loses_commits=st.booleans(),
    source=st.sampled_from([None, Snapshots, WithoutSnapshots]),
)
def test_a_clean_run_deletes_exactly_what_is_listed_and_not_alive(
    history: list[tuple[object, ...]],
    young: list[tuple[object, ...]],
    rules: int | None,
    small_pages: bool,
    loses_commits: bool,
    source: type[Snapshots | WithoutSnapshots] | None,
) -> None:
    # Everything small, so that there are several parts, shards, rounds and groups.
    small = {"candidate_rows": 3, "part_rows": 2, "delete_keys": 2, "listing_rows_max": 2, "shard_values": 2}
    world = make_world(tuning=small)
    world.runner = Parallel()
    defects = frozenset({"active_walk_early_stop"} if loses_commits else set())
    changes = {"prepare_flush_rows": 1, "prepare_file_bytes_max": 16} if small_pages else {}
    world.lake = with_settings(world.lake, defects=defects, **changes)
    world.client = CatalogClient(world.lake.catalog)
    if rules is not None:
        world.rules(rules, two=2 * rules)
    made = History(world)
    for name, *arguments in history:
        made.do(str(name), *arguments)
    world.age(hours=26)
    old = world.data()
    for name, *arguments in young:
        if name != "age":
            made.do(str(name), *arguments)
    living = alive(world, world.lake.catalog)
    before = world.data()
    with pytest.MonkeyPatch.context() as patch:
        if source is not None:
            # Whatever a record names stays, also where a newer one hides it.
            living |= staged_anywhere(world, world.lake.catalog)
            open_as(source(world), patch)
        with never_asked(world, *(HEAVY if source is not None else ())):
            context = world.plan(read_kv=source is not None)
            world.run(context)
    gone = before - world.data()
    assert gone.isdisjoint(living), "a live object was deleted"
    assert gone == old - living - of_unnamed(world, context), "garbage was left"
    for found in world.lake.catalog.branches.list_branches(world.lake.repository, show_hidden=True).results:
        for stats in world.lake.listing(found.name):
            address = world.lake.address(stats)
            assert (address in world.data()) == (address in before), f"{found.name} lost {stats.path}"
