"""Design 5: no two entries lead to one object, so whoever removes an entry deletes its object; entries have locks.

Moves are the one way in which an address comes under another path. A lock is a mark in the entry, set under the
condition that the entry is as it was read.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.proposals import lake
from tests.simulation.proposals.lake import TOMBSTONE, Entry
from tests.simulation.proposals.world import (
    Flow,
    RefusedError,
    World,
    delete_object,
    kv_delete,
    kv_get,
    kv_scan,
    kv_set,
    kv_set_if,
    put,
    read_clock,
)


@dataclass(frozen=True)
class Design:
    """One way to build the design.

    Args:
        delete_locks: a deletion sets the lock, not only looks at it.
        move_respects: a move gives way to a lock that is there.
        lock_hours: a lock that is older counts as left behind; None: locks last for ever.
        look_again: a deletion, as an upload, keeps the object when the token has changed meanwhile.
    """

    delete_locks: bool = True
    move_respects: bool = True
    lock_hours: int | None = None
    look_again: bool = False


def world(*, objects: tuple[str, ...] = ("data/a",), **staged: str) -> World:
    """The branch main with staged entries."""
    entries = {f"t1/{path}": lake.entry(to) for path, to in staged.items()}
    return lake.world(objects=objects, staged=entries)


def lock(design: Design, token: str, path: str) -> Flow[Entry]:
    """Get an entry and lock it; returns the locked one."""
    entry = yield from lake.get_entry(token, path)
    if entry.locked and design.move_respects and not (yield from stale(design, token, path)):
        raise RefusedError(f"{path} is locked")
    locked = entry._replace(locked=True)
    if not (yield kv_set_if(f"staged/{token}/{path}", locked, entry)):
        raise RefusedError(f"{path} was changed")
    if design.lock_hours is not None:
        yield kv_set(f"locked/{token}/{path}", (yield read_clock()))
    return locked


def stale(design: Design, token: str, path: str) -> Flow[bool]:
    """Say whether a lock is so old that its owner counts as dead."""
    if design.lock_hours is None:
        return False
    since = yield kv_get(f"locked/{token}/{path}")
    return since is not None and (yield read_clock()) - since > design.lock_hours


def move(design: Design, path: str, to: str) -> Flow[str]:
    """Lock the entry, copy it to the new path, delete the old entry, unlock the new one."""
    token = (yield from lake.get_branch("main")).token
    locked = yield from lock(design, token, path)
    now = (yield from lake.get_branch("main")).token
    yield kv_set(f"staged/{now}/{to}", locked)
    yield kv_set(f"staged/{now}/{path}", TOMBSTONE)
    yield kv_set(f"staged/{now}/{to}", locked._replace(locked=False))
    return "moved"


def upload(design: Design, path: str, address: str) -> Flow[str]:
    """Lock what is there, write, stage, delete what was there (unless the token is another one by now)."""
    token = (yield from lake.get_branch("main")).token
    old = yield kv_get(f"staged/{token}/{path}")
    if old is not None and old != TOMBSTONE:
        old = yield from lock(design, token, path)
    yield put(address, lake.body_of(address))
    yield kv_set(f"staged/{token}/{path}", lake.entry(address))
    if old is not None and old != TOMBSTONE:
        if (yield from lake.get_branch("main")).token != token:
            raise RefusedError("the token has changed: the old object stays")
        yield delete_object(old.address)
    return "uploaded"


def delete(design: Design, path: str) -> Flow[str]:
    """Lock the entry (or only look at its lock), remove it, delete the object."""
    token = (yield from lake.get_branch("main")).token
    if design.delete_locks:
        entry = yield from lock(design, token, path)
    else:
        entry = yield from lake.get_entry(token, path)
        if entry.locked:
            raise RefusedError(f"{path} is locked")
    yield kv_delete(f"staged/{token}/{path}")
    if design.look_again and (yield from lake.get_branch("main")).token != token:
        raise RefusedError("the token has changed: the object stays")
    yield delete_object(entry.address)
    return "deleted"


def commit(commit_id: str, token: str) -> Flow[str]:
    """Commit as today."""
    sealed = yield from lake.seal("main", token)
    yield from lake.write_commit("main", sealed, commit_id)
    return "committed"


def reset(token: str) -> Flow[str]:
    """Reset branch: what it drops is deleted, unless it is locked."""
    for old in (yield from lake.reset("main", token)):
        for path, entry in (yield kv_scan(f"staged/{old}/")):
            yield kv_delete(f"staged/{old}/{path}")
            if entry != TOMBSTONE and not entry.locked:
                yield delete_object(entry.address)
    return "reset"
