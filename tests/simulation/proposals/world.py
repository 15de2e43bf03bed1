"""The language of the models: a world of two stores and a clock, and the steps of an actor.

An actor is a generator. Each yielded step is one atomic operation of the object store, of the key-value store or of the
clock; between two steps any other actor may move, the process may die, or time may pass.

    def delete(path: str) -> Flow[None]:
        entry = yield kv_get(f"staged/t1/{path}")
        yield kv_delete(f"staged/t1/{path}")
        yield delete_object(entry.address)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

type Flow[T] = Generator["Step", Any, T]
type Actor = Callable[[], Flow[object]]

STORE = "Object store"
KV = "KV store"
CLOCK = "Clock"


class RefusedError(Exception):
    """The operation ends here with an error for its caller: a condition failed, or an input is missing."""


class Object(NamedTuple):
    body: str
    meta: Hashable = None
    generation: int = 0
    born: int = 0

    def __str__(self) -> str:
        return self.body if self.meta is None else f"{self.body} ({self.meta})"


@dataclass(slots=True)
class World:
    objects: dict[str, Object] = field(default_factory=dict)
    kv: dict[str, Hashable] = field(default_factory=dict)
    now: int = 0

    def copy(self) -> World:
        return World(dict(self.objects), dict(self.kv), self.now)

    def frozen(self) -> Hashable:
        return frozenset(self.objects.items()), frozenset(self.kv.items()), self.now


class Then(NamedTuple):
    """An actor's return value to start afresh with some values; its earlier answers no longer matter.

    Two ways to the same values are the same state.
    """

    state: Hashable
    flow: Callable[[], Flow[object]]


def through(flow: Flow[object]) -> Flow[object]:
    end = yield from flow
    while isinstance(end, Then):
        end = yield from end.flow()
    return end


def after(*flows: Callable[[], Flow[object]]) -> Flow[object]:
    """One after the other, with independent answers. It ends like the last one."""
    end = yield from through(flows[0]())
    return end if len(flows) == 1 else Then(("after", len(flows)), lambda: after(*flows[1:]))


@dataclass(frozen=True, slots=True)
class Step:
    where: str
    text: str
    act: Callable[[World], Hashable]
    by: int | None = None
    since: int = 0


# --- the object store ---------------------------------------------------------------------------------------------


def put(key: str, body: str, meta: Hashable = None, *, born: int | None = None) -> Step:
    """Write an object whole, also over an existing one."""

    def act(world: World) -> None:
        old = world.objects.get(key)
        generation = old.generation + 1 if old else 0
        world.objects[key] = Object(body, meta, generation, world.now if born is None else born)

    return Step(STORE, f"PUT {key} = {body}", act)


def put_if_absent(key: str, body: str, meta: Hashable = None) -> Step:
    """Write a new object (If-None-Match: *); returns whether it did."""

    def act(world: World) -> bool:
        if key in world.objects:
            return False
        world.objects[key] = Object(body, meta, 0, world.now)
        return True

    return Step(STORE, f"PUT {key} = {body} if absent", act)


def head(key: str) -> Step:
    """Return an object with its metadata, or None."""
    return Step(STORE, f"HEAD {key}", lambda world: world.objects.get(key))


def set_meta_if_etag(key: str, meta: Hashable, etag: str) -> Step:
    """Copy an object over itself with other metadata, with If-Match; the ETag depends on the body only. Returns
    whether it did.
    """

    def act(world: World) -> bool:
        return _set_meta(world, key, meta, lambda old: old.body == etag)

    return Step(STORE, f"COPY {key} over itself, metadata {meta}, If-Match", act)


def set_meta_if_generation(key: str, meta: Hashable, generation: int) -> Step:
    """Set metadata if neither body nor metadata has changed (Azure, Google)."""

    def act(world: World) -> bool:
        return _set_meta(world, key, meta, lambda old: old.generation == generation)

    return Step(STORE, f"SET METADATA {key} {meta} if still generation {generation}", act)


def _set_meta(world: World, key: str, meta: Hashable, holds: Callable[[Object], bool]) -> bool:
    old = world.objects.get(key)
    if old is None or not holds(old):
        return False
    world.objects[key] = old._replace(meta=meta, generation=old.generation + 1)
    return True


def delete_object(key: str) -> Step:
    return Step(STORE, f"DELETE {key}", lambda world: world.objects.pop(key, None) and None)


def list_objects(prefix: str) -> Step:
    def act(world: World) -> Hashable:
        return tuple(sorted((k, v) for k, v in world.objects.items() if k.startswith(prefix)))

    return Step(STORE, f"LIST {prefix}", act)


# --- the key-value store ------------------------------------------------------------------------------------------


def kv_get(key: str) -> Step:
    """Return a value, or None."""
    return Step(KV, f"get {key}", lambda world: world.kv.get(key))


def kv_set(key: str, value: Hashable) -> Step:

    def act(world: World) -> None:
        world.kv[key] = value

    return Step(KV, f"set {key} = {say(value)}", act)


def kv_set_if(key: str, value: Hashable, expected: Hashable) -> Step:
    """Set a value if it is still the expected one (None: absent); returns whether it was."""

    def act(world: World) -> bool:
        if world.kv.get(key) != expected:
            return False
        world.kv[key] = value
        return True

    return Step(KV, f"setIf {key} = {say(value)}", act)


def kv_delete(key: str) -> Step:
    return Step(KV, f"delete {key}", lambda world: world.kv.pop(key, None) and None)


def kv_delete_if(key: str, expected: Hashable) -> Step:
    """Delete a key if it still has the expected value; returns whether it had."""

    def act(world: World) -> bool:
        if key not in world.kv or world.kv[key] != expected:
            return False
        del world.kv[key]
        return True

    return Step(KV, f"deleteIf {key}", act)


def kv_scan(prefix: str) -> Step:
    """Return all keys below a prefix, without it, and their values; one page."""

    def act(world: World) -> Hashable:
        found = sorted((key, value) for key, value in world.kv.items() if key.startswith(prefix))
        return tuple((key.removeprefix(prefix), value) for key, value in found)

    return Step(KV, f"scan {prefix}", act)


def kv_drop(prefix: str) -> Step:
    def act(world: World) -> None:
        for key in [key for key in world.kv if key.startswith(prefix)]:
            del world.kv[key]

    return Step(KV, f"drop {prefix}", act)


# --- the clock ----------------------------------------------------------------------------------------------------


def read_clock() -> Step:
    return Step(CLOCK, "what time is it?", lambda world: world.now)


def wait_until(hour: int) -> Step:
    return Step(CLOCK, f"wait until {hour}:00", lambda world: None, since=hour)


def within[T](flow: Flow[T], by: int) -> Flow[T]:
    """A request ending by the end of an hour, before time passes."""
    try:
        step = next(flow)
        while True:
            step = flow.send((yield replace(step, by=by)))
    except StopIteration as ended:
        result: T = ended.value
        return result


def say(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(say, value))) + "}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + ", ".join(map(say, value)) + "]"
    return str(value)
