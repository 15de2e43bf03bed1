"""Actors taking turns at a key-value store, in an order chosen by the test.

    explore(scene, crashes=1)     # every schedule
    Stage(store)                  # step by step: one schedule, or a state machine

Each actor runs in a separate thread on a separate view of the store and stops before every operation until its next
turn. A schedule is a list of moves; a failing one is printed, and `Stage.step` repeats it:

    "a"     the actor does its next operation
    "a-"    its next operation is not done and fails (UnavailableError)
    "a?"    its next operation is done, but its answer is lost (UnavailableError)
    "a!"    its process dies instead of its next operation (CrashError)

`explore` makes a new scene for each schedule, follows the tree of moves depth first, and calls `check` at each end.
With `reduce`, schedules that differ in the order of independent moves only are run once (sleep sets). A test asserts
on the number of schedules and of each kind of end, so that a scene without a race fails.

Limits: an actor waits for no other actor outside the store and starts no thread with access to it; each has its own
catalog (`lake.another_server(kv)`, `Settings(background=False)`). Calls of the object store happen with the operation
before them. The scene does the same each time it is made; random names may differ unless their order counts.
"""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dredge.errors import UnavailableError
from lakefs_embedded.kv import Entry, Store
from tests.support.faulty import CrashError, ForwardingStore, Operation

type Actor = Callable[[Store], object]
WAIT_SECONDS = 30
FAULTS = "-?!"


class TurnStore(ForwardingStore):
    """An actor's view of a store: every operation waits for its turn. A scan is one operation."""

    def __init__(self, store: Store, turn: Callable[[Operation], str]) -> None:
        super().__init__(store)
        self._turn = turn

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        yield from self._do(
            Operation("scan", partition, start), lambda: list(self._store.scan(partition, start))
        )

    def _do[T](self, operation: Operation, deed: Callable[[], T]) -> T:
        fault = self._turn(operation)
        if fault == "-":
            raise UnavailableError(f"not done: {operation}")
        result = deed()
        if fault == "?":
            raise UnavailableError(f"done, answer lost: {operation}")
        return result


@dataclass
class _Performer:
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    pending: Operation | None = None
    fault: str = ""
    dead: bool = False


class Stage:
    """Resumes actors, one operation of one actor at a time."""

    def __init__(self, store: Store) -> None:
        self.results: dict[str, object] = {}
        """What actors that have ended returned or raised."""
        self.taken: list[str] = []
        """The moves so far: a schedule."""
        self._store = store
        self._performers: dict[str, _Performer] = {}
        self._stopped = threading.Semaphore(0)

    def start(self, name: str, actor: Actor) -> None:
        """Let an actor run to its first operation. A name may be used again after the end of its actor."""
        assert name[-1] not in FAULTS, f"{name!r} could be taken for a move"
        assert name not in self._performers, f"{name} is still on the stage"
        performer = _Performer()
        view = TurnStore(self._store, lambda operation: self._turn(name, performer, operation))

        def body() -> None:
            try:
                self.results[name] = actor(view)
            except (Exception, CrashError) as error:
                self.results[name] = error
            finally:
                performer.pending = None
                self._stopped.release()

        self.results.pop(name, None)
        self._performers[name] = performer
        performer.thread = threading.Thread(target=body, name=f"actor {name}", daemon=True)
        performer.thread.start()
        self._settle(name)

    def pending(self) -> dict[str, Operation]:
        """The next operation of every running actor, by name."""
        return {
            name: performer.pending
            for name, performer in sorted(self._performers.items())
            if performer.pending is not None
        }

    def step(self, move: str) -> Operation:
        """Make one move (see above); returns its operation."""
        name, fault = (move[:-1], move[-1]) if move[-1] in FAULTS else (move, "")
        performer = self._performers[name]
        operation = performer.pending
        assert operation is not None
        self.taken.append(move)
        performer.fault = fault
        performer.go.release()
        self._settle(name)
        return operation

    def run(self, choose: Callable[[list[str]], str] = lambda names: names[0]) -> None:
        while pending := self.pending():
            self.step(choose(list(pending)))

    def abandon(self) -> None:
        """End all actors; their operations are not done."""
        taken = len(self.taken)
        while pending := self.pending():
            self.step(next(iter(pending)) + "!")
        del self.taken[taken:]

    def _turn(self, name: str, performer: _Performer, operation: Operation) -> str:
        assert threading.current_thread() is performer.thread, f"{name} must not use threads of its own"
        if not performer.dead:
            performer.pending = operation
            self._stopped.release()
            assert performer.go.acquire(timeout=WAIT_SECONDS), f"{name}: no turn came"
            performer.pending = None
            performer.dead = performer.fault == "!"
        if performer.dead:  # also for what `finally` blocks still try
            raise CrashError(f"{name}: instead of {operation}")
        return performer.fault

    def _settle(self, name: str) -> None:
        assert self._stopped.acquire(timeout=WAIT_SECONDS), f"{name} hangs: does it wait for another actor?"
        performer = self._performers[name]
        if performer.pending is None:
            assert performer.thread is not None
            performer.thread.join(WAIT_SECONDS)
            del self._performers[name]


@dataclass(frozen=True)
class Scene:
    """A new world with actors, and a check of the end."""

    store: Store
    actors: Mapping[str, Actor]
    check: Callable[[Mapping[str, object]], None]


@dataclass
class Explored:
    schedules: int = 0
    cut: int = 0
    longest: int = 0
    outcomes: dict[tuple[str, ...], int] = field(default_factory=dict)


@dataclass
class _Node:
    asleep: frozenset[str]
    todo: list[str]
    pending: dict[str, str]
    done: set[str] = field(default_factory=set)


def explore(
    scene: Callable[[], Scene], *, crashes: int = 0, faults: str = "", reduce: bool = True
) -> Explored:
    explored = Explored()
    stack: list[_Node] = []
    while True:
        world = scene()
        stage = Stage(world.store)
        for name, actor in world.actors.items():
            stage.start(name, actor)
        if _follow(stage, stack, crashes, faults, reduce):
            explored.schedules += 1
            explored.longest = max(explored.longest, len(stage.taken))
            kinds = tuple(_kind(stage.results[name]) for name in sorted(stage.results))
            explored.outcomes[kinds] = explored.outcomes.get(kinds, 0) + 1
            try:
                world.check(stage.results)
            except Exception as error:
                raise AssertionError(f"schedule {stage.taken}: {error}\n{stage.results}") from error
        else:
            explored.cut += 1
        while stack:
            node = stack[-1]
            node.done.add(node.todo.pop(0))
            if node.todo:
                break
            stack.pop()
        if not stack:
            return explored


def _follow(stage: Stage, stack: list[_Node], crashes: int, faults: str, reduce: bool) -> bool:
    asleep: frozenset[str] = frozenset()
    for depth in itertools.count():
        pending = stage.pending()
        if not pending:
            return True
        if depth == len(stack):
            moves = [move for move in _moves(pending, stage.taken, crashes, faults) if move not in asleep]
            if not moves:
                stage.abandon()
                return False
            stack.append(_Node(asleep, moves, _names(pending)))
        node = stack[depth]
        assert node.pending == _names(pending), (
            f"the scene is not the same each time: after {stage.taken} {node.pending} became {_names(pending)}"
        )
        move = node.todo[0]
        if reduce:
            asleep = frozenset(other for other in node.asleep | node.done if _commute(other, move, pending))
        stage.step(move)
    raise AssertionError  # count() never ends


def _names(pending: Mapping[str, Operation]) -> dict[str, str]:
    return {name: operation.name for name, operation in pending.items()}


def _moves(pending: Mapping[str, Operation], taken: Sequence[str], crashes: int, faults: str) -> list[str]:
    moves = list(pending)
    if any(move[-1] in "-?" for move in taken):
        faults = ""
    moves += [name + fault for fault in faults for name in pending]
    if sum(move.endswith("!") for move in taken) < crashes:
        moves += [name + "!" for name in pending]
    return moves


def _commute(left: str, right: str, pending: Mapping[str, Operation]) -> bool:
    one, other = left.rstrip(FAULTS), right.rstrip(FAULTS)
    if one == other or (left[-1] in FAULTS and right[-1] in FAULTS):
        return False  # faults share a budget
    if left[-1] in "-!" or right[-1] in "-!":
        return True
    return _independent(pending[one], pending[other])


def _independent(left: Operation, right: Operation) -> bool:
    if left.partition != right.partition or not (left.writes or right.writes):
        return True
    if left.name == "scan":
        return right.key < left.key
    if right.name == "scan":
        return left.key < right.key
    return left.key != right.key


def _kind(result: object) -> str:
    return type(result).__name__ if isinstance(result, BaseException) else "ok"
