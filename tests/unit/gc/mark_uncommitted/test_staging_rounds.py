"""Staging is scanned until a scan is proved; what any of them gave counts, and what was tried is bounded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted import server_scan, staging
from dredge.gc.mark_uncommitted.staging import Staging, scan_staging
from dredge.gc.run import Run
from dredge.hashing import hash64
from tests.support.gc import World, make_world, seen_with
from tests.support.lossy_scans import stormy_world
from tests.support.storms import Storm


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


def test_branches_that_come_and_go_while_a_scan_is_compared_are_not_taken_for_such_of_the_scan() -> None:
    """One scan is enough where branches stand still while it is made."""
    world = make_world()
    run = world.plan()
    for number in range(2):
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{number}", "main")
    with world.during("prepare_uncommitted", lambda: world.upload("a", b"1", "b0") and None):
        assert len(scan_staging(run, "scan").server_runs) == 1
    with world.during("changes", lambda: world.lake.catalog.branches.delete_branch("lake", "b1")):
        assert len(scan_staging(run, "again").server_runs) == 1


@pytest.mark.parametrize(("late", "is_refused"), [(0.0, False), (0.5, True)])
def test_the_deadline_of_a_scan_is_counted_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, late: float, is_refused: bool
) -> None:
    world = seen_with(make_world(safety={"scan_deadline_seconds": 100}), prepare_interval=timedelta(0))
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    run = world.plan()
    monkeypatch.setattr(staging, "running_seconds", lambda: 5000.0)
    monkeypatch.setattr(server_scan, "running_seconds", lambda: 5100.0 + late)
    if is_refused:
        with pytest.raises(RefusedError, match="100 s"):
            scan_staging(run, "scan")
    else:
        assert scan_staging(run, "scan").pages > 1


def test_what_only_branches_showed_is_written_and_counted_once() -> None:
    world, living, _ = stormy_world(staged=5)
    run = world.plan()
    with Storm(world, ["mm"]):
        found = scan_staging(run, "scan")
    assert addresses(run, found) == living
    assert (found.rows, len(found.scanned), found.empty_pages) == (5, 0, 1)
    assert found.proof is not None
    assert found.proof.addresses == living


def test_a_scan_that_lost_nothing_writes_no_file_of_its_proof() -> None:
    world = make_world()
    staged = world.upload("a", b"1")
    run = world.plan()
    found = scan_staging(run, "scan")
    assert addresses(run, found) == {staged}
    assert len(found.files.addresses) == 1
    assert found.scanned.tolist() == hash64(pa.array([staged])).tolist()


@pytest.mark.parametrize("days", [2, 0])
@pytest.mark.parametrize("rounds", [1, 4])
def test_so_many_scans_are_made_as_may_be_and_the_last_one_says_why_it_proved_nothing(
    rounds: int, days: int
) -> None:
    """What is young, the end of a branch cannot tell of."""
    world, _, _ = stormy_world(staged=0, safety={"staged_questions_max": 3, "scan_rounds_max": rounds})
    for number in range(30):
        world.upload(f"path/{number:04d}", b"%d" % number, "aa")
    world.age(days=days)
    run = world.plan()
    with Storm(world, ["mm"]) as storm, pytest.raises(RefusedError, match=f"{rounds} scans"):
        scan_staging(run, "scan")
    assert storm.calls == rounds


def test_what_was_too_much_to_ask_is_not_asked_again_in_the_next_round() -> None:
    world, _, _ = stormy_world(safety={"staged_questions_max": 3, "scan_rounds_max": 3})
    run = world.plan()
    asked: list[str] = []
    with Storm(world, ["mm"]):
        storm = world.client.before

        def note(name: str, arguments: tuple[Any, ...]) -> None:
            storm(name, arguments)
            asked.append(name)

        world.client.before = note
        with pytest.raises(RefusedError, match="3 questions"):
            scan_staging(run, "scan")
    rounds = [part.count("stat") + part.count("objects") for part in rounds_of(asked)]
    assert rounds[1] > rounds[2] == rounds[3]


def rounds_of(asked: list[str]) -> list[list[str]]:
    """What was asked before the first scan, and after each."""
    found: list[list[str]] = [[]]
    for name in asked:
        if name == "prepare_uncommitted":
            found.append([])
        found[-1].append(name)
    return found
