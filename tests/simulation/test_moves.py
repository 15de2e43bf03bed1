"""Promises of moves: their effects, and breakable rules about them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tests.simulation.clock import DAY, HOUR, Clock
from tests.simulation.history import Move, Outcome, Simulation, _make, play
from tests.simulation.oracle import Asked
from tests.simulation.orchestrator import Orchestrated
from tests.simulation.scheduler import Process
from tests.simulation.world_gc import GcScene, GcWorld

PEACE = [Move(-60.0, "pace", (0.02,)), Move(-59.0, "rest", ("clean", 0))]
QUIET = 11
"""A seed with one honest server and an honest clock."""


@dataclass
class Told(GcWorld):
    """A history of given moves, and a check of its scene before the end."""

    moves: Sequence[Move] = ()
    look: Callable[[GcScene], None] = lambda _scene: None
    scenes: list[GcScene] = field(default_factory=list)

    def draw(self, chance: object) -> list[Move]:
        return [*self.moves, *PEACE]

    def build(self, simulation: Simulation) -> GcScene:
        scene = super().build(simulation)
        settle = scene.settle

        def look_and_settle() -> None:
            self.look(scene)
            settle()

        scene.settle = look_and_settle  # type: ignore[method-assign]
        self.scenes.append(scene)
        return scene


def _told(moves: Sequence[tuple[float, str, tuple[Any, ...]]], look: Callable[[GcScene], None]) -> Outcome:
    outcome = play(Told(moves=[Move(*move) for move in moves], look=look), QUIET)
    assert outcome.error is None, outcome.tale()
    return outcome


def test_requests_to_the_gateway_change_what_a_branch_reads() -> None:
    seen: list[int] = []

    def look(scene: GcScene) -> None:
        seen.extend((len(scene.oracle.truth.by_staging()), scene.s3.refused))

    past = -30 * HOUR
    _told(
        [
            (past, "s3 put", ("main", "a", b"x")),
            (past + 1, "s3 put if new", ("main", "b", b"y")),
            (past + 2, "s3 begin parts", ("main", "dir/c", b"zz")),
            (past + 3, "s3 complete parts", (0,)),
            (past + 4, "s3 copy", ("main", "dir/d", "main", "a")),
            (past + 5, "s3 delete many", ("main", ("a", "e"))),
            (past + 6, "s3 put if new", ("main", "b", b"y")),
        ],
        look,
    )
    assert seen == [3, 1]  # b, dir/c and the copy; the last request was refused


@pytest.mark.parametrize(
    ("answers", "deleted"),
    [
        ([], 0),
        ([("approved", "anna", "Airflow")], 1),
        ([("approved", "anna", "dredge gc")], 1),
        ([("rejected", "anna", "Airflow")], 0),
        ([("rejected", "bert", "dredge gc"), ("approved", "anna", "Airflow")], 0),
    ],
)
def test_a_run_that_must_be_approved_deletes_after_a_yes_only(
    answers: list[tuple[str, str, str]], deleted: int
) -> None:
    run = "asked", "clean", False, None, 0, None, "dag", ("always", 1.0), "off"
    said = [(1200.0 + 60 * n, "answer", ("asked", *answer)) for n, answer in enumerate(answers)]
    seen: list[int] = []
    _told(
        [(-3 * DAY, "orphan", (b"x",)), (0.0, "run", run), *said],
        lambda scene: seen.append(scene.simulation.states["deleted"]),
    )
    assert seen == [deleted]


def test_what_a_run_deleted_comes_back_and_a_purge_leaves_it() -> None:
    seen: list[tuple[int, int]] = []

    def look(scene: GcScene) -> None:
        there = [key for key in scene.oracle.bucket.keys if "/orphans/" in key and "quarantine" not in key]
        seen.append((scene.simulation.states["deleted"], len(there)))

    run = "undone", "clean", False, None, 0, None, "dag", ("never", 1.0), "quarantine"
    _told(
        [
            (-3 * DAY, "orphan", (b"x",)),
            (0.0, "run", run),
            (HOUR, "restore", (0, 30.0)),
            (50 * HOUR, "purge", (1.0, False)),
            (60 * HOUR, "run", ("again", *run[1:])),
        ],
        look,
    )
    assert seen == [(1, 1)]


def _as(scene: GcScene, name: str, body: Callable[[], object]) -> None:
    scheduler = scene.simulation.scheduler
    scheduler.wait(1.0)
    scheduler.join(scheduler.spawn(name, body, Process(name, scheduler, may_fail=True)))


def _purge_current(scene: GcScene) -> None:
    bucket = scene.oracle.bucket
    key = next(key for key in bucket.keys if key.startswith("lake/data/"))
    scene.oracle.undone.purges["purge0"] = 1.0, False
    _as(scene, "purge0 try", lambda: bucket.purge(key, bucket.objects[key].version))


def _sweep(
    scene: GcScene,
    approval: str = "over_limits",
    most: int | None = None,
    dry_run: bool = False,
    clock_offset: float = 0.0,
    cutoff_after: float = 1.0,
) -> None:
    bucket, key, scheduler = scene.oracle.bucket, _orphan(scene), scene.simulation.scheduler
    run = Orchestrated("run0", {}, "memory://bucket/lake/run0")
    run.clock = Clock(lambda: scheduler.now, offset=bucket.clock.offset + clock_offset)
    cutoff = bucket.objects[key].modified + timedelta(seconds=cutoff_after)
    bucket.write("lake/run0/plan.json", json.dumps({"cutoff": cutoff.isoformat()}).encode())
    scene.oracle.asked["run0"] = Asked(
        scheduler.now, None, False, approval, most, dry_run, lambda: run, undo="off"
    )
    _as(scene, "run0 bulk_delete", lambda: bucket.remove(key))


def _orphan(scene: GcScene) -> str:
    return next(key for key in scene.oracle.bucket.keys if "/orphans/" in key)


def _sweep_unasked(scene: GcScene) -> None:
    _sweep(scene, approval="always")


def _sweep_beyond(scene: GcScene) -> None:
    _sweep(scene, most=0)


def _sweep_pinned(scene: GcScene) -> None:
    scene.oracle.undone.brought_back({_orphan(scene).removeprefix("lake/")}, 3.0, whole=True)
    _sweep(scene)


def _sweep_dry(scene: GcScene) -> None:
    _sweep(scene, dry_run=True)


def _sweep_by_a_wrong_clock(scene: GcScene) -> None:
    _sweep(scene, clock_offset=400.0)


def _sweep_beside_wrong_clocks(scene: GcScene) -> None:
    scene.make(Move(0.0, "clocks off", (2400.0,)))
    scene.simulation.scheduler.wait(1.0)
    _sweep(scene)


def _sweep_at_the_cutoff(scene: GcScene) -> None:
    _sweep(scene, cutoff_after=0.0)


def _sweep_by_an_old_mark(scene: GcScene) -> None:
    planned_at = scene.oracle.bucket.clock() - timedelta(days=2)
    scene.oracle.fences.marks["lake/run0/plan.json"] = planned_at, timedelta(days=1)
    scene.oracle.bucket.write("lake/run0/bulk_delete/_try.json", b"{}")
    _sweep(scene)


def _sweep_of_what_was_begun_anew(scene: GcScene) -> None:
    for step in ("subtract", "list_committed"):
        scene.simulation.scheduler.wait(1.0)
        scene.oracle.bucket.write(f"lake/run0/{step}/_try.json", b"{}")
    _sweep(scene)


def _sweep_what_a_head_has_for_long(scene: GcScene, seconds: float = 80.0) -> None:
    scheduler, doors, key = scene.simulation.scheduler, scene.simulation.doors, _orphan(scene)
    sweep = Process("run0 bulk_delete", scheduler, may_fail=True)
    doors.sleeps = 1
    scheduler.wait(1.0)
    for move in (Move(0.0, "stage", ("main", "b", 0)), Move(0.0, "commit", ("main", 0))):
        scene.make(move)
    scheduler.wait(seconds)

    def delete() -> None:
        doors.call("store", "delete", lambda: scene.oracle.bucket.remove(key), {})

    scheduler.join(scheduler.spawn(sweep.name, delete, sweep))


def _sweep_what_a_head_has_for_short(scene: GcScene) -> None:
    _sweep_what_a_head_has_for_long(scene, 50.0)


@pytest.mark.parametrize(
    ("act", "rule"),
    [
        (_sweep_what_a_head_has_for_long, "live"),
        (_sweep_what_a_head_has_for_short, ""),
        (_purge_current, "purged"),
        (_sweep_unasked, "approved"),
        (_sweep_beyond, "approved"),
        (_sweep_pinned, "restored"),
        (_sweep_dry, "looks"),
        (_sweep_by_a_wrong_clock, "clocks"),
        (_sweep_beside_wrong_clocks, "clocks"),
        (_sweep_at_the_cutoff, "young"),
        (_sweep_by_an_old_mark, "mark"),
        (_sweep_of_what_was_begun_anew, "chain"),
        (_sweep, ""),
    ],
)
def test_whoever_deletes_against_a_rule_of_its_run_is_found_out(
    act: Callable[[GcScene], None], rule: str
) -> None:
    moves = [Move(-3 * DAY, "orphan", (b"x",)), Move(-2 * DAY, "upload", ("main", "a", b"x"))]
    outcome = play(Told(moves=moves, look=act), QUIET)
    assert outcome.rule == rule, outcome.tale()


class _Scene:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.made = simulation, list[float]()

    def process_of(self, move: Move) -> Process:
        return Process(f"client {move.verb}", self.simulation.scheduler)

    def make(self, move: Move) -> None:
        self.made.append(self.simulation.scheduler.now)

    def settle(self) -> None:
        """Nothing is left."""

    def check(self) -> None:
        """Nothing can be wrong."""


def test_a_move_is_made_at_each_nth_call_and_who_faints_does_nothing_for_a_while() -> None:
    simulation = Simulation.make(0)
    simulation.doors.pace = {"caller": 0.0}
    scheduler, scene, ends = simulation.scheduler, _Scene(simulation), list[float]()

    def calls() -> None:
        for _ in range(7):
            simulation.doors.call("store", "get", lambda: None, {})
            ends.append(scheduler.now)

    _make(simulation, scene, 0, Move(0.0, "each", ("step", "get", 2, 2, "upload")), 0.0)
    _make(simulation, scene, 1, Move(0.0, "when", ("step", "get", 6, "faint", 100.0)), 0.0)
    scheduler.spawn("caller", calls, Process("caller", scheduler, role="step"), 1.0)
    scheduler.run()
    assert scene.made == [1.0, 1.0]
    assert ends == [1.0] * 5 + [101.0] * 2


def test_who_sleeps_can_be_woken_before_his_time() -> None:
    simulation = Simulation.make(0)
    scheduler, ends = simulation.scheduler, list[float]()

    def calls() -> None:
        for _ in range(2):
            simulation.doors.call("store", "get", lambda: None, {})
        ends.append(scheduler.now)

    simulation.doors.pace = {"caller": 0.0}
    _make(simulation, _Scene(simulation), 0, Move(0.0, "when", ("step", "get", 2, "faint", 100.0)), 0.0)
    _make(simulation, _Scene(simulation), 1, Move(30.0, "when", ("other", "get", 1, "wake", "caller")), 0.0)
    scheduler.spawn("caller", calls, Process("caller", scheduler, role="step"), 1.0)
    other = Process("other", scheduler, role="other")
    scheduler.spawn("other", lambda: simulation.doors.call("store", "get", lambda: None, {}), other, 40.0)
    scheduler.run()
    assert ends == [40.0]


def test_a_run_of_which_a_task_was_marked_as_failed_ends_while_that_goes_on() -> None:
    seen: list[str] = []
    at = 0.0, "when"
    _told(
        [
            (-3 * DAY, "orphan", (b"x",)),
            (0.0, "run", ("left", "clean", False, None, 0, None, "dag")),
            (*at, ("bulk_delete", "get", 1, "suspend", 2 * HOUR)),
            (*at, ("bulk_delete", "get", 1, "mark failed", "left")),
        ],
        lambda scene: seen.extend(scene.orchestrator.runs["left"].errors),
    )
    assert seen == ["bulk_delete: Killed: taken for lost"]


def test_a_request_that_was_on_its_way_when_its_step_was_begun_anew_breaks_no_rule() -> None:
    seen: list[int] = []
    at = 0.0, "when"
    _told(
        [
            (-3 * DAY, "orphan", (b"x",)),
            (0.0, "run", ("late", "clean", False, None, 0, None, "dag")),
            (*at, ("bulk_delete", "delete", 1, "dawdle", 200.0)),
            (*at, ("bulk_delete", "delete", 1, "weather", "store answer lost", 260.0, 1.0)),
            (*at, ("bulk_delete", "delete", 1, "redo", "late", "bulk_delete")),
        ],
        lambda scene: seen.append(scene.simulation.states["deleted"]),
    )
    assert seen == [1]
