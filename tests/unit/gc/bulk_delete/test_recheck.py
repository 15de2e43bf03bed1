"""What comes to life between the mark and the first request is found by the re-check alone.

The mark is over when the branch is made here, so no earlier step can have seen it.
"""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.gc.bulk_delete import Subtracted, recheck
from dredge.gc.bulk_delete.watch import look_before_recheck
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention import PolicyRule, RetentionPolicy
from dredge.gc.run import Run
from dredge.gc.steps import bulk_delete
from dredge.lakefs.files.ranges import is_table_id
from tests.support.gc import World, make_world, stage_again, summary_of
from tests.support.kv_views import Snapshots, open_as
from tests.support.memory_store import memory_store

PATHS = ("audit/a", "x")
AUDITS = RetentionPolicy((PolicyRule("audits", ("rel-*",), None, ("audit/**",)),))
LAST = RetentionPolicy((PolicyRule("last", ("rel-*",), 2),))


def superseded(**settings: Any) -> tuple[World, dict[str, list[str]], list[str]]:
    """A branch on which every commit overwrites the same paths by something longer: addresses by path, and commits,
    oldest first."""
    world = make_world(**settings, rules=1)
    addresses: dict[str, list[str]] = {path: [] for path in PATHS}
    commits = []
    for number in range(4):
        for path, found in addresses.items():
            found.append(world.upload(path, f"{path:<9}{'.' * number}".encode()))
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
    context = world.marked()
    world.lake.catalog.branches.create_branch(world.lake.repository, "rel-1", commits[1])
    bulk_delete(context, world.runner)
    expected = {found[number] for found in addresses.values() for number in (1, 3)}
    assert world.data() == expected | {addresses[path][0] for path in kept_before}
    world.assert_readable("rel-1")


def marked() -> tuple[World, Run, Subtracted]:
    """A run that has its candidates, on a branch with something committed and something staged."""
    return marked_in(make_world())


def marked_in(world: World) -> tuple[World, Run, Subtracted]:
    world.commit("a", b"committed")
    world.upload("b", b"staged")
    world.age(days=2)
    run = world.marked()
    return world, run, Subtracted.of_mark(run, ListCommittedOutput.of(summary_of(run, "list_committed")))


def test_a_head_counts_whether_it_was_one_before_or_after_staging_was_read() -> None:
    world, run, subtracted = marked()
    (old,) = filter(None, subtracted.commits.values())
    asked: list[str] = []

    def before(name: str, _arguments: object) -> None:
        asked.append(name)
        if name == "branches" and asked.count(name) == 3:  # staging was read between the first and the second
            commits.append(world.lake.commit().id)

    commits: list[str] = []
    world.client.before = before
    recheck(run, world.runner, subtracted, "recheck/0")
    assert {subtracted.commits[commit] for _, commit in subtracted.branches} == {
        old,
        *(subtracted.commits[commit] for commit in commits),
    }
    assert len(subtracted.branches) == 2


def test_what_is_committed_while_staging_is_about_to_be_read_is_found_in_its_commit() -> None:
    """Staging first: what leaves it before it is read is in a commit when those are read, be it one before the head."""
    world, run, subtracted = marked()

    def commit_and_take_out() -> None:
        world.lake.commit()
        world.lake.catalog.objects.delete_object(world.lake.repository, "main", "b")
        world.lake.commit()

    with world.during("prepare_uncommitted", commit_and_take_out):
        found = recheck(run, world.runner, subtracted, "recheck/0")
    assert (found["staged_rows"], found["new_commits"]) == (0, 2)


def test_what_only_a_tag_names_when_staging_was_read_is_found_in_its_commit() -> None:
    """Commits after staging: no head that was seen leads to this one."""
    world, run, subtracted = marked()
    catalog, repository = world.lake.catalog, world.lake.repository

    def tag_and_leave() -> None:
        catalog.branches.create_branch(repository, "side", "main")
        world.upload("c", b"on the side", "side")
        commit = world.lake.commit("side", branch="side")
        catalog.tags.create_tag(repository, "v1", commit.id)
        catalog.branches.delete_branch(repository, "side")

    with world.during("prepare_uncommitted", tag_and_leave):
        found = recheck(run, world.runner, subtracted, "recheck/0")
    assert found["new_commits"] == 1


def carry(world: World, commit: str) -> None:
    """Have branch `side` stage an entry of a commit."""
    catalog, repository = world.lake.catalog, world.lake.repository
    catalog.branches.hard_reset(repository, "side", commit)
    catalog.objects.update_user_metadata(repository, "side", "x", {"seen": "again"})
    catalog.branches.hard_reset(repository, "side", "main")


@pytest.mark.parametrize("records", [False, True])
def test_what_only_a_tag_named_when_staging_was_about_to_be_read_stays_though_it_was_staged_and_the_tag_is_gone(
    records: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired commit that was tagged after the mark. No list shows it: staging was read before, tags are after."""
    world, addresses, commits = superseded(read_kv=records)
    if records:
        open_as(Snapshots(world), monkeypatch)
    catalog, repository = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(repository, "side", "main")
    run = world.marked()
    catalog.tags.create_tag(repository, "v1", commits[0])
    asked: list[str] = []

    def before(name: str, _arguments: object) -> None:
        asked.append(name)
        if name == "branches" and asked.count(name) == 3:  # staging was read before
            carry(world, commits[0])
            catalog.tags.delete_tag(repository, "v1")

    world.client.before = before
    bulk_delete(run, world.runner)
    assert catalog.tags.list_tags(repository).results == []
    assert addresses["x"][0] in world.data()
    world.assert_readable("side")


def test_a_tag_made_after_an_old_look_counts_though_it_is_gone_after_staging_was_read() -> None:
    """The machine slept between the look and the re-check."""
    world, _, commits = superseded()
    catalog, repository = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(repository, "side", "main")
    run = world.marked()
    subtracted = Subtracted.of_mark(run, ListCommittedOutput.of(summary_of(run, "list_committed")))
    seen = look_before_recheck(run)
    catalog.tags.create_tag(repository, "v1", commits[0])
    asked: list[str] = []

    def before(name: str, _arguments: object) -> None:
        asked.append(name)
        if name == "branches" and asked.count(name) == 3:  # staging was read before
            carry(world, commits[0])
            catalog.tags.delete_tag(repository, "v1")

    world.client.before = before
    late = run.plan.config.safety.heads_every_seconds + 1
    recheck(run, world.runner, subtracted, "recheck/0", replace(seen, at=seen.at - late))
    assert catalog.tags.list_tags(repository).results == []
    assert commits[0] in subtracted.commits


@pytest.mark.parametrize("rules", [False, True])
def test_a_commit_that_nothing_names_counts_when_it_was_written_in_the_last_days(
    rules: bool,
) -> None:
    """Its file may have been brought back since the mark, with the time that it had before."""
    other = make_world()
    orphan = other.orphan("data/slice/orphan")
    stage_again(other, orphan)
    other.lake.commit()
    world = make_world()
    world.orphan(orphan)
    if rules:
        world.rules(30)
    _, run, _ = marked_in(world)
    bucket, _, prefix = world.lake.namespace.removeprefix("memory://").partition("/")
    for key in other.lake.keys("_lakefs/"):
        if is_table_id(key.removeprefix("_lakefs/")):
            data = other.lake.objects.get(key)
            memory_store(bucket).write(f"{prefix}/{key}", data, run.plan.cutoff - timedelta(days=1))
    bulk_delete(run, world.runner)
    assert orphan in world.data()
