"""What other rules would free: figures, doubts, and that asking changes nothing. `tests/properties/test_gc_foresee.py`
compares with clean dry runs."""

import pytest

from dredge.errors import ConfigError
from dredge.gc.insight.base_run import BaseRun, open_base
from dredge.gc.insight.what_if import Proposal, as_now, by_days, from_file, read_days, what_if
from dredge.lakefs import Rules
from dredge.runs.payload import to_json
from tests.support.gc import World, make_world, summary_of
from tests.support.policies import policy


def base_of(world: World, **settings: object) -> BaseRun:
    context = world.collected(dry_run=True, **settings)
    return open_base(context.plan.run_uri)


def superseded(rules: int | None = 30) -> World:
    """A path overwritten every ten days: objects of 1, 2, 3, 4 bytes, the last in the head."""
    world = make_world()
    if rules is not None:
        world.rules(rules)
    for number in range(1, 5):
        world.commit("a", b"x" * number)
        world.age(days=10)
    return world


def test_shorter_rules_free_what_they_let_expire() -> None:
    base = base_of(superseded(rules=25))
    found = what_if(base, as_now(base.rules) + by_days(base.rules, [5, 15, 60]))
    # Commits are 40, 30, 20 and 10 days old, and one stays as long as the commit after it is young.
    freed = {item.proposal.name: (item.freed.objects, item.freed.size_bytes) for item in found}
    assert freed == {"as now": (1, 1), "5 days": (3, 6), "15 days": (2, 3), "60 days": (0, 0)}
    assert [(item.more.size_bytes, item.less.size_bytes) for item in found] == [
        (0, 0),
        (5, 0),
        (2, 0),
        (0, 1),
    ]
    assert [item.bound for item in found] == ["", "", "", "≤"]


def test_a_dangling_commit_stays_as_long_as_the_default_rule_says() -> None:
    world = superseded()
    world.lake.catalog.branches.create_branch(world.lake.repository, "gone", "main")
    world.commit("b", b"y" * 50, "gone")
    world.lake.catalog.branches.delete_branch(world.lake.repository, "gone")
    world.age(days=10)
    base = base_of(world)
    proposals = by_days(base.rules, [5, 20])
    ask = world.client.commit
    short, long = what_if(base, proposals, lambda commit_id: ask(world.lake.repository, commit_id))
    assert (short.freed.size_bytes, long.freed.size_bytes) == (50 + 6, 3)
    # Nobody can be asked for its date: it is taken for kept, and that is said.
    short, long = what_if(base, proposals)
    assert (short.freed.size_bytes, short.bound, bool(short.unknown)) == (6, "≥", True)
    assert long.bound == "≥"


@pytest.mark.parametrize(
    ("settings", "freed"),
    [
        ({}, 2 + 3),
        ({"keep_tags": False}, 1 + 2 + 3),
        ({"policy": to_json(policy("branches: main, last: 2"))}, 2),
        ({"policy": to_json(policy("branches: main, paths: a"))}, 0),
        ({"policy": to_json(policy("branches: main, paths: b"))}, 2 + 3),
    ],
)
def test_tags_and_policies_keep_under_other_rules_what_they_keep_in_a_run(
    settings: dict[str, object], freed: int
) -> None:
    world = superseded()
    first = list(world.client.log("lake", "main"))[-2]
    world.lake.catalog.tags.create_tag("lake", "v1", first.id)
    base = base_of(world, **settings)
    (found,) = what_if(base, by_days(base.rules, [1]))
    world.age(hours=1)
    world.rules(1)
    assert found.freed.size_bytes == freed
    assert found.freed.size_bytes == summary_of_candidates(world, settings)


def summary_of_candidates(world: World, settings: dict[str, object]) -> int:
    context = world.collected(dry_run=True, **settings)
    return summary_of(context, "subtract").counts["candidates_bytes"]


def test_foreseeing_changes_nothing() -> None:
    world = superseded()
    base = base_of(world)
    before = {key: world.lake.objects.get(key) for key in world.lake.keys("")}
    what_if(base, by_days(base.rules, [1, 90]), shard_values=1)
    assert {key: world.lake.objects.get(key) for key in world.lake.keys("")} == before


def test_proposals_are_read_from_days_branches_and_files() -> None:
    rules = Rules(30, {"dev": 7})
    assert by_days(rules, read_days("14,7,14")) == [
        Proposal("7 days", Rules(7, {"dev": 7}), 7),
        Proposal("14 days", Rules(14, {"dev": 7}), 14),
    ]
    assert by_days(rules, [3], "dev")[0].rules == Rules(30, {"dev": 3})
    text = '{"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}'
    assert from_file(text, "r.json").rules == Rules(21, {"main": 28})
    for wrong in ("seven", "7,", "-1"):
        with pytest.raises(ConfigError):
            read_days(wrong)
    for broken in ("{}", "[]", "x", '{"default_retention_days": "7"}'):
        with pytest.raises(ConfigError, match=r"r\.json"):
            from_file(broken, "r.json")
    with pytest.raises(ConfigError, match="no rules"):
        by_days(None, [3], "dev")
    base = base_of(superseded())
    with pytest.raises(ConfigError, match="64"):
        what_if(base, by_days(base.rules, range(64)))
