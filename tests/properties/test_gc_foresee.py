"""On random histories, what is foreseen for other rules is what a clean dry run under them finds; and where it is said
that less may go, not more goes. `DREDGE_CASES` sets the number of histories.
"""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dredge.gc.insight.base_run import open_base
from dredge.gc.insight.what_if import Proposal, WhatIf, what_if
from dredge.gc.retention import PolicyRule, RetentionPolicy
from dredge.gc.run import Run
from dredge.lakefs import Commit, Rules
from dredge.runs.payload import to_json
from dredge.runs.run import release_lease
from tests.support.depth import depth
from tests.support.gc import Parallel, World, make_world, summary_of
from tests.support.histories import History, operation

CASES = depth(10, 800, "DREDGE_CASES")
DAYS = (0, 1, 3, 5, 30)
POLICIES = (
    None,
    RetentionPolicy((PolicyRule("last", ("main",), last=2),)),
    RetentionPolicy(
        (PolicyRule("paths", ("one", "main"), paths=("a",)), PolicyRule("two", ("two",), last=3))
    ),
)


@settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    history=st.lists(operation, min_size=15, max_size=45),
    rules=st.sampled_from([None, 1, 5, 30]),
    policy=st.sampled_from(POLICIES),
    keep_tags=st.booleans(),
    tried=st.sampled_from(DAYS),
)
@example(  # a commit that no mark saw: its metarange counts, whatever the rules
    history=[
        ("commit", "main", False),
        ("upload", "main", "a", b""),
        ("commit", "main", False),
        ("hard reset", "main", 0),
        *([("upload", "main", "a", b"")] * 3),
    ],
    rules=None,
    policy=None,
    keep_tags=False,
    tried=0,
)
def test_what_is_foreseen_is_what_a_clean_dry_run_under_those_rules_finds(
    history: list[tuple[object, ...]],
    rules: int | None,
    policy: RetentionPolicy | None,
    keep_tags: bool,
    tried: int,
) -> None:
    world = make_world(tuning={"part_rows": 4, "candidate_rows": 3, "shard_values": 8})
    world.runner = Parallel()
    if rules is not None:
        world.rules(rules, two=2 * rules)
    made = History(world)
    for name, *arguments in history:
        made.do(str(name), *arguments)
    world.age(hours=26)
    asked = {"policy": None if policy is None else to_json(policy), "keep_tags": keep_tags}
    base = dry_run(world, **asked)
    proposals = [Proposal(f"{days} days", Rules(days, {"one": 4})) for days in DAYS]
    opened = open_base(base.plan.run_uri)
    found = what_if(opened, proposals, lambda commit_id: ask(world, commit_id), shard_values=16)
    known = {commit_id: ask(world, commit_id) for commit_id in made.commit_ids()}
    sure = what_if(opened, proposals, known=known)
    world.rules(tried, one=4)
    real = dry_run(world, **asked)
    assert not sure[DAYS.index(tried)].unknown
    assert_fits(sure[DAYS.index(tried)], real)
    assert_fits(found[DAYS.index(tried)], real)


def ask(world: World, commit_id: str) -> Commit:
    return world.client.commit(world.lake.repository, commit_id)


def dry_run(world: World, **asked: object) -> Run:
    context = world.plan(dry_run=True, **asked)
    world.mark(context)
    release_lease(context)
    world.age(seconds=1)
    return context


def assert_fits(foreseen: WhatIf, real: Run) -> None:
    counts = summary_of(real, "subtract").counts
    found = (counts["candidates_objects"], counts["candidates_bytes"])
    told = (foreseen.freed.objects, foreseen.freed.size_bytes)
    if foreseen.unknown:
        assert told >= found
    else:
        assert told == found, foreseen.proposal.name
        assert foreseen.held.objects == counts["held_objects"]
        assert foreseen.commits == summary_of(real, "list_committed").counts["active_commits"]
