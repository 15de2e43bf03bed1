"""Runs a scene in every order, and returns the shortest failing one.

An actor's state is the list of its answers (since its last fresh start, see `Then`): it is restarted and given them
again, so generators need no copy. Two orders with the same world and the same answers are one state. States are visited
by depth, so the first failing one has the shortest schedules; of those, the one with the fewest turn changes is kept.

Moves: `name` does its next step, `name!` dies instead, `clock` lets an hour pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.proposals.world import CLOCK, Actor, RefusedError, Step, Then, World, say, through

CLOCK_MOVE = "clock"
DEAD = "died"


@dataclass(frozen=True)
class Trouble:
    kind: str
    text: str


@dataclass(frozen=True)
class Scene:
    world: World
    actors: Mapping[str, Actor]
    always: Callable[[World], Sequence[Trouble]]
    later: Sequence[tuple[str, Actor]] = ()
    at_rest: Callable[[World, Mapping[str, str]], Sequence[Trouble]] = lambda world, ends: ()
    crashes: int = 0
    hours: int = 0


class Event(NamedTuple):
    actor: str
    move: str
    where: str
    text: str
    answer: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class Found:
    trouble: Trouble
    events: tuple[Event, ...]
    later: tuple[Event, ...] = ()

    @property
    def moves(self) -> list[str]:
        return [event.move for event in self.events]


@dataclass
class Explored:
    states: int = 0
    schedules: int = 0
    found: dict[str, Found] = field(default_factory=dict)
    ends: dict[tuple[str, ...], int] = field(default_factory=dict)

    def note(self, found: Found) -> None:
        known = self.found.get(found.trouble.kind)
        if known is None or len(found.events) < len(known.events):
            self.found[found.trouble.kind] = found


class _Life(NamedTuple):
    """An actor's state: the number of its list of answers, and whether it has died."""

    history: int
    dead: bool = False


class _Path(NamedTuple):
    """The way to a state: a list with a shared beginning."""

    before: _Path | None = None
    event: Event | None = None
    switches: int = 0

    def events(self) -> tuple[Event, ...]:
        found: list[Event] = []
        path: _Path | None = self
        while path is not None:
            if path.event is not None:
                found.append(path.event)
            path = path.before
        return tuple(reversed(found))


@dataclass(slots=True)
class _Node:
    world: World
    lives: tuple[_Life, ...]
    last: str
    path: _Path
    count: int
    state: Hashable


@dataclass(slots=True)
class _History:
    """Answers of an actor since its last fresh start, and their result."""

    actor: Actor
    answers: tuple[Hashable, ...]
    next: Step | str


class _Play:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.names = list(scene.actors)
        self._histories: list[_History] = []
        self._numbers: dict[tuple[object, Hashable], int] = {}
        self._first = tuple(
            _Life(self._number(name, None, actor, ())) for name, actor in scene.actors.items()
        )

    def first(self) -> _Node:
        return self._node(self.scene.world.copy(), self._first, "", _Path(), 1)

    def _node(self, world: World, lives: tuple[_Life, ...], last: str, path: _Path, count: int) -> _Node:
        return _Node(world, lives, last, path, count, (world.frozen(), lives))

    def next_of(self, life: _Life) -> Step | str:
        return DEAD if life.dead else self._histories[life.history].next

    def told(self, actor: str, life: _Life, answer: Hashable) -> _Life:
        key = (life.history, answer)
        if key not in self._numbers:
            history = self._histories[life.history]
            self._numbers[key] = self._number(actor, key, history.actor, (*history.answers, answer))
        return _Life(self._numbers[key])

    def _number(self, name: str, key: object, actor: Actor, answers: tuple[Hashable, ...]) -> int:
        following = replay(actor, answers)
        while isinstance(following, Then):
            place = (name, following.state)
            if place in self._numbers:
                return self._numbers[place]
            self._numbers[place] = len(self._histories)
            actor, answers = following.flow, ()
            following = replay(actor, ())
        self._histories.append(_History(actor, answers, following))
        return len(self._histories) - 1

    def moves(self, node: _Node) -> list[str]:
        pending = {
            name: step
            for name, life in zip(self.names, node.lives, strict=True)
            if isinstance(step := self.next_of(life), Step)
        }
        ready = [name for name, step in pending.items() if step.since <= node.world.now]
        moves = list(ready)
        if sum(life.dead for life in node.lives) < self.scene.crashes:
            begun = [
                name for name, life in zip(self.names, node.lives, strict=True) if life not in self._first
            ]
            moves += [f"{name}!" for name in pending if name in begun]
        due = any(step.by is not None and step.by <= node.world.now for step in pending.values())
        left = node.world.now < self.scene.world.now + self.scene.hours
        if pending and not due and (left or not ready):  # when all wait, time passes in any scene
            moves.append(CLOCK_MOVE)
        return moves

    def make(self, node: _Node, move: str) -> _Node:
        world, lives = node.world.copy(), list(node.lives)
        if move == CLOCK_MOVE:
            world.now += 1
            actor, event = CLOCK_MOVE, Event(CLOCK_MOVE, move, CLOCK, f"it is {world.now}:00")
        else:
            actor = move.removesuffix("!")
            index = self.names.index(actor)
            lives[index], event = self._act(world, actor, move, lives[index])
        switches = node.path.switches + (node.last not in ("", actor))
        return self._node(world, tuple(lives), actor, _Path(node.path, event, switches), node.count)

    def _act(self, world: World, actor: str, move: str, life: _Life) -> tuple[_Life, Event]:
        step = self.next_of(life)
        assert isinstance(step, Step)
        if move.endswith("!"):
            return life._replace(dead=True), Event(actor, move, "", "dies", outcome=DEAD)
        answer = step.act(world)
        after = self.told(actor, life, answer)
        end = self.next_of(after)
        return after, Event(
            actor, move, step.where, step.text, _told(answer), "" if isinstance(end, Step) else end
        )

    def ends(self, node: _Node) -> dict[str, str]:
        found = {name: self.next_of(life) for name, life in zip(self.names, node.lives, strict=True)}
        return {name: end for name, end in found.items() if isinstance(end, str)}

    def rest(self, node: _Node) -> tuple[list[Trouble], tuple[Event, ...]]:
        """Run the later actors, then check."""
        world, ends, events = node.world.copy(), self.ends(node), []
        for name, actor in self.scene.later:
            happened, ends[name] = run_alone(name, actor, world)
            events += happened
        troubles = [*self.scene.always(world), *self.scene.at_rest(world, ends)]
        return troubles, tuple(events)


def _told(answer: Hashable) -> str:
    return "" if answer is None else say(answer)


def replay(actor: Actor, answers: Sequence[Hashable]) -> Step | Then | str:
    """Start an actor, give it the answers, and return its next step, its continuation, or its end."""
    flow = actor()
    try:
        step = next(flow)
        for answer in answers:
            step = flow.send(answer)
    except StopIteration as ended:
        if isinstance(ended.value, Then):
            return ended.value
        return "done" if ended.value is None else str(ended.value)
    except RefusedError as error:
        return f"refused: {error}"
    flow.close()
    return step


def run_alone(name: str, actor: Actor, world: World) -> tuple[list[Event], str]:
    """Run one actor to its end without others; time passes when it waits."""
    answers: list[Hashable] = []
    events: list[Event] = []
    while isinstance(step := replay(lambda: through(actor()), answers), Step):
        world.now = max(world.now, step.since)
        answers.append(step.act(world))
        events.append(Event(name, name, step.where, step.text, _told(answers[-1])))
    assert isinstance(step, str)
    return events, step


def explore(scene: Scene, until: str | None = None) -> Explored:
    play, explored = _Play(scene), Explored()
    layer = [play.first()]
    seen: set[Hashable] = set()
    while layer and until not in explored.found:
        following: dict[Hashable, _Node] = {}
        for node in sorted(layer, key=lambda node: node.path.switches):
            moves = play.moves(node)
            if node.state not in seen:
                seen.add(node.state)
                _look(play, node, moves, explored)
            if not moves:
                explored.schedules += node.count
            for move in moves:
                _merge(following, play.make(node, move))
        layer = list(following.values())
    explored.states = len(seen)
    return explored


def _merge(following: dict[Hashable, _Node], node: _Node) -> None:
    key = (node.state, node.last)
    known = following.get(key)
    if known is None:
        following[key] = node
        return
    node.count += known.count
    known.count = node.count
    if node.path.switches < known.path.switches:
        following[key] = node


def _look(play: _Play, node: _Node, moves: Sequence[str], explored: Explored) -> None:
    for trouble in play.scene.always(node.world):
        explored.note(Found(trouble, node.path.events()))
    if moves:
        return
    ends = tuple(f"{name}: {end}" for name, end in play.ends(node).items())
    explored.ends[ends] = explored.ends.get(ends, 0) + 1
    troubles, later = play.rest(node)
    for trouble in troubles:
        explored.note(Found(trouble, node.path.events(), later))


def follow(scene: Scene, moves: Sequence[str]) -> list[Trouble]:
    """Play one schedule; returns the trouble at its end, at rest if all have ended by then."""
    play = _Play(scene)
    node = play.first()
    for move in moves:
        assert move in play.moves(node), f"{move} cannot be made now; possible: {play.moves(node)}"
        node = play.make(node, move)
    return list(scene.always(node.world)) or (play.rest(node)[0] if not play.moves(node) else [])
