"""Staging is scanned until a scan is proved; what any of them gave counts, and what was tried is bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.staging import Staging, scan_staging
from dredge.gc.run import Run
from tests.support.gc import World, make_world


def addresses(run: Run, found: Staging) -> set[str]:
    return {
        address
        for rows in run.folder.read_parts(found.files.addresses)
        for address in rows["address"].to_pylist()
    }


def before_scans(world: World, action: Callable[[int], None]) -> list[int]:
    """Do something before each scan, with its number from 1; gives the numbers so far, growing."""
    numbers: list[int] = []

    def before(name: str, _arguments: object) -> None:
        if name == "prepare_uncommitted":
            numbers.append(len(numbers) + 1)
            action(numbers[-1])

    world.client.before = before
    return numbers


def test_everything_that_any_scan_gave_counts() -> None:
    world = make_world(safety={"scan_rounds_max": 3})
    catalog, name = world.lake.catalog, world.lake.repository
    staged = world.upload("a", b"1")
    catalog.branches.create_branch(name, "side", "main")
    run = world.plan()

    def move(number: int) -> None:
        catalog.branches.create_branch(name, f"b{number}", "main")
        world.upload(f"during/{number}", b"%d" % number)
        if number == 2:  # only the first scan shows it
            catalog.objects.delete_object(name, "main", "a")

    scans = before_scans(world, move)
    found = scan_staging(run, "scan")
    assert scans == [1, 2, 3]
    assert len(found.server_runs) == len(set(found.server_runs)) == 3
    assert (found.pages, found.empty_pages, len(found.server_files)) == (3, 0, 3)
    assert found.rows == 2 + 2 + 3, "with repetitions"
    assert len(found.scanned) == 4
    assert staged in addresses(run, found)
    assert found.proof is not None
    assert found.proof.asked_for_all == 1, "the last round asks each branch with changes for everything"
    assert {branch for branch, _ in found.heads} == {"main", "side", "b1", "b2", "b3"}
    assert found.branches.keys() == {"main", "side", "b1", "b2", "b3"}


def test_heads_of_before_between_and_after_scans_are_all_remembered() -> None:
    world = make_world()
    run = world.plan()
    (main,) = world.client.branches(world.lake.repository)
    commits = [main.commit_id]

    def move(number: int) -> None:
        if number == 1:  # a branch comes, so that there is a second scan
            world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
        world.upload("a", b"%d" % number)
        commits.append(world.lake.commit(f"{number}").id)

    scans = before_scans(world, move)
    found = scan_staging(run, "scan")
    assert scans == [1, 2]
    assert {commit for branch, commit in found.heads if branch == "main"} == set(commits)
    assert found.branches["main"] == commits[-1]


def test_a_server_that_lists_no_branches_is_not_believed() -> None:
    world = make_world()
    world.upload("a", b"1")
    run = world.plan()
    world.client.branches = lambda *_: []  # type: ignore[method-assign]
    with pytest.raises(RefusedError):
        scan_staging(run, "scan")
