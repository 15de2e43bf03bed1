"""What an online solution would take: transactions over an entry, its branch and its references, and a to-do list.

    references/<address> = who holds it: "<token>/<path>" each     todo/<address>, todo-token/<token> = to be deleted
    intent/<address> = an upload that has begun, and until when it may be linked

1. An entry and the references to its object change in one transaction, and only while its token is the branch's.
   So a seal ends all changes of a token, and its references are those of the commit.
2. Whatever has to be deleted is put down in the transaction that makes it so. Whoever dies leaves that behind.
3. An address without a holder never gets one again.
4. The intent comes before the object, so no object is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from tests.simulation.proposals import lake
from tests.simulation.proposals.lake import Branch, Entry
from tests.simulation.proposals.world import (
    KV,
    AnswerLostError,
    Flow,
    RefusedError,
    Step,
    World,
    delete_object,
    kv_delete,
    kv_scan,
    put,
    read_clock,
    wait_until,
    within,
)

INTENT_HOURS = 1


@dataclass(frozen=True)
class Design:
    """The design, and what happens without one of its rules.

    Args:
        same_token: rule 1: a change is made only while its token is the branch's; without, it is read before.
        todo: rule 2; without, whoever took the last reference away deletes at once.
        dead: rule 3; without, an address may be linked whatever holds it.
        intent: rule 4.
    """

    same_token: bool = True
    todo: bool = True
    dead: bool = True
    intent: bool = True


def world(**given: object) -> World:
    """A repository whose staged entries are their objects' holders."""
    made = lake.world(**given)  # type: ignore[arg-type]
    for key, entry in list(made.kv.items()):
        if key.startswith("staged/") and isinstance(entry, Entry):
            _hold(made, entry.address, key.removeprefix("staged/"))
    return made


def _holders(world: World, address: str) -> tuple[str, ...]:
    found = world.kv.get(f"references/{address}", ())
    assert isinstance(found, tuple)
    return found


def _hold(world: World, address: str, holder: str) -> None:
    world.kv[f"references/{address}"] = tuple(sorted((*_holders(world, address), holder)))


def transact(text: str, act: Callable[[World], Hashable]) -> Step:
    """A transaction over several keys."""
    return Step(KV, f"transaction: {text}", act)


def again(make: Callable[[], Step]) -> Flow[Hashable]:
    """Do a step, and do it again when its answer is lost."""
    while True:
        try:
            answer: Hashable = yield make()
            return answer
        except AnswerLostError:
            continue


class Places:
    """The transactions."""

    def __init__(self, design: Design) -> None:
        self.design = design

    def add(self, world: World, address: str, holder: str) -> None:
        """Add a holder."""
        if holder not in _holders(world, address):
            _hold(world, address, holder)

    def remove(self, world: World, address: str, holder: str) -> bool:
        """Remove a holder; the last one puts the address on the list. Says whether it was the last."""
        left = tuple(name for name in _holders(world, address) if name != holder)
        world.kv[f"references/{address}"] = left
        if left:
            return False
        if self.design.todo:
            world.kv[f"todo/{address}"] = True
        return True

    def token(self, world: World, seen: str | None) -> str | None:
        """The token to work on."""
        branch = world.kv.get("branch/main")
        if not self.design.same_token and seen is not None:
            return seen
        return branch.token if isinstance(branch, Branch) else None

    def stage(self, path: str, address: str, seen: str | None, *, fresh: bool) -> Step:
        """Stage an address: what it replaces is let go in the same transaction."""

        def act(world: World) -> Hashable:
            token = self.token(world, seen)
            if token is None:
                return "no branch"
            place = f"{token}/{path}"
            if world.kv.get(f"staged/{place}") == lake.entry(address):
                return ()
            begun = world.kv.pop(f"intent/{address}", None) is not None or not self.design.intent
            if self.design.dead and not (begun if fresh else _holders(world, address)):
                return "nothing holds it"
            old = world.kv.get(f"staged/{place}")
            world.kv[f"staged/{place}"] = lake.entry(address)
            self.add(world, address, place)
            return (old.address,) if isinstance(old, Entry) and self.remove(world, old.address, place) else ()

        return transact(f"stage {path}→{address}, with its reference", act)

    def unstage(self, path: str, seen: str | None) -> Step:
        """Remove an entry with its reference."""

        def act(world: World) -> Hashable:
            place = f"{self.token(world, seen)}/{path}"
            old = world.kv.pop(f"staged/{place}", None)
            if not isinstance(old, Entry):
                return "not staged"
            return (old.address,) if self.remove(world, old.address, place) else ()

        return transact(f"remove {path}, with its reference", act)

    def finish(self, gone: Hashable) -> Flow[None]:
        """What follows a transaction: delete what it freed."""
        if isinstance(gone, str):
            raise RefusedError(gone)
        assert isinstance(gone, tuple)
        for address in gone:
            yield delete_object(address)
            yield kv_delete(f"todo/{address}")

    def seen(self) -> Flow[str | None]:
        """The token, read before, if the transaction does not look itself."""
        return None if self.design.same_token else (yield from lake.get_branch("main")).token


def upload(design: Design, path: str, address: str) -> Flow[str]:
    """Say that it begins, write, stage."""
    places = Places(design)
    by = (yield read_clock()) + INTENT_HOURS
    if design.intent:
        yield from again(lambda: _set(f"intent/{address}", by))
    yield from within(again(lambda: put(address, lake.body_of(address))), by)
    seen = yield from places.seen()
    yield from places.finish((yield from again(lambda: places.stage(path, address, seen, fresh=True))))
    return "uploaded"


def _set(key: str, value: Hashable) -> Step:
    return Step(KV, f"set {key} = {value}", lambda world: world.kv.__setitem__(key, value))


def link(design: Design, path: str, address: str) -> Flow[str]:
    """Copy, stage object: one transaction."""
    places = Places(design)
    seen = yield from places.seen()
    yield from places.finish((yield from again(lambda: places.stage(path, address, seen, fresh=False))))
    return "linked"


def delete(design: Design, path: str) -> Flow[str]:
    """Delete object: one transaction, then the deletion if nothing holds it."""
    places = Places(design)
    seen = yield from places.seen()
    yield from places.finish((yield from again(lambda: places.unstage(path, seen))))
    return "deleted"


def commit(commit_id: str, token: str) -> Flow[str]:
    """Commit as today: the seal ends all changes of the token, and its holders stay for ever."""
    sealed = yield from lake.seal("main", token)
    yield from lake.write_commit("main", sealed, commit_id)
    return "committed"


def reset(token: str) -> Flow[str]:
    """Reset branch: one transaction, the rest is on the list."""

    def act(world: World) -> Hashable:
        branch = world.kv["branch/main"]
        assert isinstance(branch, Branch)
        world.kv["branch/main"] = Branch(branch.head, token)
        for old in (branch.token, *branch.sealed):
            if old != token:
                world.kv[f"todo-token/{old}"] = True
        return None

    yield from again(lambda: transact(f"main on {token}, its tokens on the list", act))
    return "reset"


def work(design: Design, since: int = 0) -> Flow[str]:
    """Whoever works off the list: tokens, intents that are over, addresses."""
    places = Places(design)
    yield wait_until(since)
    for token, _ in (yield kv_scan("todo-token/")):
        for path, entry in (yield kv_scan(f"staged/{token}/")):
            yield _drop(places, f"{token}/{path}", entry.address)
        yield kv_delete(f"todo-token/{token}")
    now = yield read_clock()
    for address, until in (yield kv_scan("intent/")):
        if until < now:
            yield _give_up(places, address)
    for address, _ in (yield kv_scan("todo/")):
        yield delete_object(address)
        yield kv_delete(f"todo/{address}")
    return "done"


def _drop(places: Places, place: str, address: str) -> Step:
    def act(world: World) -> None:
        if world.kv.pop(f"staged/{place}", None) is not None:
            places.remove(world, address, place)

    return transact(f"remove {place}, with its reference", act)


def _give_up(places: Places, address: str) -> Step:
    def act(world: World) -> None:
        if world.kv.pop(f"intent/{address}", None) is not None:
            world.kv[f"todo/{address}"] = True

    return transact(f"{address} was never linked: on the list", act)
