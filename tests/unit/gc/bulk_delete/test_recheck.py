"""What comes to life between the mark and the first request is found by the re-check alone.

The mark is over when the branch is made here, so no earlier step can have seen it.
"""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.retention.policy.model import PolicyRule, RetentionPolicy
from dredge.gc.steps import bulk_delete
from tests.support.gc import World, make_world

PATHS = ("audit/a", "x")
AUDITS = RetentionPolicy((PolicyRule("audits", ("rel-*",), None, ("audit/**",)),))
LAST = RetentionPolicy((PolicyRule("last", ("rel-*",), 2),))


def superseded(**settings: Any) -> tuple[World, dict[str, list[str]], list[str]]:
    """A branch on which every commit overwrites the same paths: addresses by path, and commits, oldest first."""
    world = make_world(**settings)
    world.rules(1)
    addresses: dict[str, list[str]] = {path: [] for path in PATHS}
    commits = []
    for number in range(4):
        for path, found in addresses.items():
            found.append(world.upload(path, f"{path} {number}".encode()))
        commits.append(world.lake.commit(str(number)).id)
        world.age(days=3)
    return world, addresses, commits


@pytest.mark.parametrize(
    ("policy", "kept_before"),
    [(None, ()), (AUDITS, ("audit/a",)), (LAST, PATHS)],
    ids=["its head", "paths before its head", "commits before its head"],
)
def test_sweep_keeps_what_a_branch_that_was_made_after_the_mark_reads_and_what_a_policy_keeps_for_it(
    policy: RetentionPolicy | None, kept_before: tuple[str, ...]
) -> None:
    world, addresses, commits = superseded(policy=policy)
    context = world.plan()
    world.mark(context)
    world.lake.catalog.branches.create_branch(world.lake.repository, "rel-1", commits[1])
    bulk_delete(context, world.runner)
    expected = {found[number] for found in addresses.values() for number in (1, 3)}
    assert world.data() == expected | {addresses[path][0] for path in kept_before}
    world.assert_readable("rel-1")
