"""Random histories with runs of any mode at any time, and crashes at any step of a run.

Always: nothing that lives is deleted, and where garbage waits, nothing that no other run found a grace before. And
after every complete run, whatever came before it: the run deleted exactly what a clean run would have deleted, and
what nothing names and is still there is in the pending list or will be listed again, so that no later run can miss it.
In some histories what left staging goes at once, in others a while after the first mark that did not show it.

`./run test` lives through 32 histories with fixed seeds, `./run test long` through 6,400 new ones;
`DREDGE_HISTORIES` sets another number.
"""

import itertools
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dredge.gc.pending.known import find_list
from dredge.gc.retention import PolicyRule, RetentionPolicy
from dredge.gc.run import Run
from dredge.gc.slice_listing import slice_time
from dredge.gc.state import StateStore
from dredge.gc.steps import run_steps
from dredge.runs.run import release_lease
from tests.support.depth import IS_LONG, depth
from tests.support.gc import CatalogClient, Parallel, World, candidates, make_world, pending_rows
from tests.support.histories import History, alive, kept_by, later, of_unnamed, staged_anywhere
from tests.support.killing import Killed, killed_at
from tests.support.kv_views import Snapshots, WithoutSnapshots, open_as
from tests.support.lakes import with_settings

HISTORIES = depth(32, 6400, "DREDGE_HISTORIES")
PARTS = 8
# A failing history is made shorter for whoever reads it; where it only matters that one fails, that takes too long.
SHRINK = () if os.environ.get("DREDGE_SHRINK") == "off" else (Phase.shrink,)

SMALL = {
    "candidate_rows": 3,
    "part_rows": 2,
    "delete_keys": 2,
    "listing_rows_max": 2,
    "shard_values": 4,
    "counted_layers_max": 3,
    "index_parts_max": 2,
}
POLICIES = [
    None,
    None,
    RetentionPolicy((PolicyRule("all", ("main",), None, ("a",)),)),
    RetentionPolicy(
        (PolicyRule("some", ("one", "two"), 3, ("b", "dir/c")), PolicyRule("last", ("main",), 2))
    ),
]
run = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["optimized", "optimized", "optimized", "auto", "clean"]),
        "dry_run": st.sampled_from([False, False, False, True]),
        "window": st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 20), st.integers(1, 10))),
        "crash": st.one_of(st.none(), st.integers(1, 220)),
        "resume": st.booleans(),
        "policy": st.sampled_from(POLICIES),
        "keep_tags": st.sampled_from([True, True, False]),
    }
)
type Source = type[Snapshots | WithoutSnapshots] | None
"""What a run reads: views of one moment, reads one after the other, or the server's answers."""
source: st.SearchStrategy[Source] = st.sampled_from([None, Snapshots, WithoutSnapshots])
chapter = st.tuples(st.lists(later, min_size=2, max_size=12), run)
story = st.fixed_dictionaries(
    {
        "rules": st.sampled_from([None, 1, 5, 30]),
        "small_pages": st.booleans(),
        "grace_hours": st.sampled_from([None, None, 20]),
        "chapters": st.lists(chapter, min_size=2, max_size=4),
    }
)


@pytest.mark.hunt
@pytest.mark.parametrize("part", range(PARTS))
def test_an_optimized_run_deletes_what_a_clean_run_would_and_forgets_nothing(part: int) -> None:
    find(given(story, st.just((None,)))(tell), part, HISTORIES // PARTS)


@pytest.mark.hunt
def test_runs_that_read_the_records_or_ask_the_server_by_turns_forget_nothing() -> None:
    """As above; a run may read them where the one before did not, and the other way round."""
    find(given(story, st.lists(source, min_size=5, max_size=5))(tell), PARTS, HISTORIES // 8)


def find(told: Callable[[], None], part: int, histories: int) -> None:
    """Live through histories, until one of them loses or forgets something."""
    # Hypothesis' own seed for a test is the same for all parts.
    first = random.SystemRandom().randrange(1 << 32) if IS_LONG else part
    print(f"seed {first}")
    told = settings(
        max_examples=max(1, histories),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, *SHRINK],
        suppress_health_check=list(HealthCheck),
    )(told)
    seed(first)(told)()


def tell(story: dict[str, Any], sources: Sequence[Source]) -> None:
    """Live through a history, and look at every run of it."""
    by_turns = itertools.cycle(sources)
    safety = {"staged_rows_plenty": 1000}
    grace, waits = story["grace_hours"], None
    world = make_world(tuning=SMALL, safety=safety, slice_margin_hours=50, keep_runs_days=7)
    if grace is not None:
        world.settings |= {"grace_hours": grace, "unsafe_grace_seconds": None}
        waits = Waits()
    world.runner = Parallel()
    changes = {"prepare_flush_rows": 1, "prepare_file_bytes_max": 16} if story["small_pages"] else {}
    world.lake = with_settings(world.lake, **changes)
    world.client = CatalogClient(world.lake.catalog)
    if story["rules"] is not None:
        world.rules(story["rules"], two=2 * story["rules"])
    history = History(world)
    for operations, wanted in story["chapters"]:
        for name, *arguments in operations:
            history.do(str(name), *arguments)
        world.age(seconds=1)  # ids of runs are ordered by seconds
        collect(world, **wanted, source=next(by_turns), waits=waits)
    # At last everything is caught up with, whatever windows there were.
    world.age(seconds=1)
    collect(world, "optimized", source=next(by_turns), waits=waits)
    if waits is None:
        return
    found = waits.garbage
    world.age(hours=grace, seconds=1)
    collect(world, "optimized", source=next(by_turns), waits=waits)
    assert world.data().isdisjoint(found & waits.garbage), "what both runs found was to go"


@dataclass
class Waits:
    # when a mark found each object for the first time since one saw it alive
    since: dict[str, datetime] = field(default_factory=dict)
    garbage: set[str] = field(default_factory=set)  # of the last complete run

    def look(self, context: Run, gone: set[str], living: set[str]) -> None:
        """See that a run deleted only what has waited, and take in what it found."""
        early = context.plan.created_at - timedelta(hours=context.plan.config.grace_hours or 0)
        assert all(address in self.since and self.since[address] <= early for address in gone), "too early"
        if context.folder.read_summary("check_limits") is None:
            # Killed after it wrote the pending list: what it found waits from then on.
            for address in find_begun_waits(context) - living:
                self.since.setdefault(address, context.plan.created_at)
            return
        committed = context.folder.read_summary("list_committed")
        if committed is not None and committed.details["witness"]["what_if"]:
            return  # a dry run with weaker settings of its own leaves the list as it is
        for address in self.since.keys() & living:
            del self.since[address]
        for address in candidates(context):
            self.since.setdefault(address, context.plan.created_at)


def find_begun_waits(context: Run) -> set[str]:
    """Addresses whose wait a run began."""
    created = context.client.repository(context.plan.repository).created_at
    stored = find_list(context.state, context.plan.namespace, created, context.store_now())
    if stored.pending is None:
        return set()
    rows = pending_rows(context).items()
    return {address for address, row in rows if row["run_id"] == context.plan.run_id}


def collect(
    world: World,
    mode: str,
    dry_run: bool = False,
    window: tuple[int, int] | None = None,
    crash: int | None = None,
    resume: bool = False,
    policy: RetentionPolicy | None = None,
    keep_tags: bool = True,
    source: Source = None,
    waits: Waits | None = None,
) -> str:
    """Do a run, or be killed in the middle of it, and look at what it did; gives its mode."""
    living = alive(world, world.lake.catalog, keep_tags) | kept_by(world, world.lake.catalog, policy)
    if source is not None:
        living |= staged_anywhere(world, world.lake.catalog)
    before = {key: world.lake.objects.stat(key).last_modified for key in world.data()}
    bounds: dict[str, Any] = {}
    if window is not None:
        now = world.lake.clock()
        first, days = window
        bounds = {
            "window_begin": (now - timedelta(days=first + days)).isoformat(),
            "window_end": (now - timedelta(days=first)).isoformat(),
        }
    bounds |= {"read_kv": source is not None}
    context = world.plan(mode=mode, dry_run=dry_run, policy=policy, keep_tags=keep_tags, **bounds)
    with pytest.MonkeyPatch.context() as patch:
        if source is not None:
            open_as(source(world), patch)
        complete = run_or_die(world, context, crash, resume)
    by_unnamed = of_unnamed(world, context)
    gone = before.keys() - world.data()
    assert gone.isdisjoint(living), f"live objects were deleted: {gone & living}"
    if waits is not None:
        waits.look(context, gone, living)
    if dry_run:
        assert not gone
    if dry_run or not complete:
        return context.plan.mode
    garbage = {key for key, time in before.items() if time < context.plan.cutoff} - living - by_unnamed
    assert gone <= garbage
    if waits is not None:
        waits.garbage = garbage
    elif window is None or context.plan.mode == "clean":
        assert gone == garbage, "not what a clean run would have deleted"
    state = StateStore(context.state).current(world.lake.repository, world.lake.namespace).state
    assert state is not None
    assert state.run_id == context.plan.run_id
    for address in world.data() - living - by_unnamed - pending_rows(context).keys():
        opened = slice_time(address.rpartition("/")[0])
        assert opened is None or not state.covered.has(opened), f"{address} was forgotten"
    return context.plan.mode


KEPT = {
    "nothing more": {"policy": None},
    "single paths": {"policy": POLICIES[2]},
    "paths and last commits": {"policy": POLICIES[3]},
    "other paths": {"policy": RetentionPolicy((PolicyRule("all", ("main", "one"), None, ("b", "dir/c")),))},
    "no tags": {"policy": None, "keep_tags": False},
}
"""What runs are asked to keep beyond the rules."""
RULES = (None, 1, 8, 30)


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(KEPT, 2)])
def test_an_optimized_run_under_another_policy_deletes_what_a_clean_run_would(
    first: str, second: str
) -> None:
    """Loosened, tightened, rules about paths added, taken away and changed, tags switched off and on."""
    world, history = superseded_world()
    world.rules(1)
    collect(world, "clean", **KEPT[first])
    go_on(world, history)
    for policy in (second, first):
        assert collect(world, "optimized", **KEPT[policy]) == "optimized"
        world.age(hours=1)


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(RULES, 2)])
def test_an_optimized_run_under_other_rules_of_the_server_deletes_what_a_clean_run_would(
    first: int | None, second: int | None
) -> None:
    world, history = superseded_world()
    for mode, rules in (("clean", first), ("optimized", second), ("optimized", first)):
        history.do("rules", rules)
        assert collect(world, mode, policy=POLICIES[2]) == mode
        go_on(world, history)


def superseded_world() -> tuple[World, History]:
    """Branches and tags with histories of several ages, in which each commit's objects are superseded."""
    safety = {"staged_rows_plenty": 1000}
    world = make_world(tuning=SMALL, safety=safety, slice_margin_hours=50)
    history = History(world)
    for name in ("one", "two", "hidden"):
        history.do("branch", name, "main")
    for step in range(6):
        for name in ("main", "one", "two", "hidden"):
            history.do("supersede", name, ("a", "b", "dir/c")[step % 3])
        history.do("tag", 5 * step)
        history.do("age", 4)
    history.do("drop branch", "hidden")
    history.do("age", 2)
    return world, history


def go_on(world: World, history: History) -> None:
    """More of the same, and days in between."""
    for name, path in (("main", "a"), ("one", "b"), ("two", "dir/c")):
        history.do("supersede", name, path)
    history.do("untag", 5)
    history.do("age", 3)


def run_or_die(world: World, context: Run, crash: int | None, resume: bool) -> bool:
    """Do a run; gives whether it was completed."""
    try:
        if crash is None:
            run_steps(context, world.runner)
            return True
        with killed_at(crash):
            run_steps(context, world.runner)
            return True
    except Killed:
        if resume:
            again = Run.open(context.plan.run_uri, None, world.client, world.lake.clock)
            run_steps(again, world.runner)
            return True
        return False
    finally:
        release_lease(context)
