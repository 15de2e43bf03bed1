"""Design 3: the staging manager keeps a record for each physical address and staging token that refers to it.

    references/<address>/<token> = (staged | deleted | committed, last modified)

A background job deletes an address whose records are all `deleted` and, the oldest of them, old enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    wait_until,
)

TBD = 2
"""The hours after which a deleted address "cannot be referenced anymore"; the document leaves the number open."""


ATTEMPTS = 3


class Reference(NamedTuple):
    """A record."""

    state: str
    modified: int

    def __str__(self) -> str:
        return f"{self.state} since {self.modified}:00"


def world(*, references: dict[str, Reference], objects: tuple[str, ...], **staged: str) -> World:
    """The branch main, with records by address and token."""
    entries = {f"t1/{path}": lake.entry(to) for path, to in staged.items()}
    made = lake.world(objects=objects, staged=entries)
    made.kv.update({f"references/{place}": reference for place, reference in references.items()})
    return made


def mark(address: str, token: str, state: str) -> Flow[None]:
    """Set a record, by its order of precedence: `committed` is final and wins, the others give way to it."""
    key = f"references/{address}/{token}"
    now = yield read_clock()
    while True:
        if state == "committed":
            yield kv_set(key, Reference(state, now))
            return
        old = yield kv_get(key)
        if old is not None and old.state == "committed":
            return
        if (yield kv_set_if(key, Reference(state, now), old)):
            return


def stage(branch: str, path: str, entry: Entry) -> Flow[str]:
    """Refer, stage, let go of what it replaces; as every write, again when the token has changed meanwhile."""
    for _ in range(ATTEMPTS):
        token = (yield from lake.get_branch(branch)).token
        old = yield kv_get(f"staged/{token}/{path}")
        yield from mark(entry.address, token, "staged")
        yield kv_set(f"staged/{token}/{path}", entry)
        if old is not None and old != TOMBSTONE:
            yield from mark(old.address, token, "deleted")
        if (yield from lake.get_branch(branch)).token == token:
            return "staged"
    raise RefusedError(f"{branch} moves all the time")


def upload(branch: str, path: str, address: str) -> Flow[str]:
    """Write the blob, refer to it, stage it."""
    yield put(address, lake.body_of(address))
    return (yield from stage(branch, path, lake.entry(address)))


def copy(source: str, path: str, branch: str, to: str) -> Flow[str]:
    """Stage object with the address of another entry, staged or committed."""
    before = yield from lake.get_branch(source)
    entry = yield kv_get(f"staged/{before.token}/{path}")
    if entry is None:
        commit = yield kv_get(f"commit/{before.head}")
        entry = dict(commit.entries).get(path)
    if entry is None or entry == TOMBSTONE:
        raise RefusedError(f"there is no {path}")
    return (yield from stage(branch, to, entry))


def get_physical_address(branch: str, address: str) -> Flow[int]:
    """Hand out an address, with a record `deleted`; returns the hour until which it may be linked."""
    token = (yield from lake.get_branch(branch)).token
    yield from mark(address, token, "deleted")
    now: int = yield read_clock()
    return now + TBD


def link(branch: str, path: str, address: str, expires: int) -> Flow[str]:
    """LinkPhysicalAddress: check that it is not too late, refer, stage."""
    if (yield read_clock()) > expires:
        raise RefusedError("too late")
    return (yield from stage(branch, path, lake.entry(address)))


def delete(branch: str, path: str) -> Flow[str]:
    """Delete object: the entry goes, its record says `deleted`."""
    token = (yield from lake.get_branch(branch)).token
    entry = yield from lake.get_entry(token, path)
    yield kv_set(f"staged/{token}/{path}", TOMBSTONE)
    yield from mark(entry.address, token, "deleted")
    return "deleted"


def commit(branch: str, commit_id: str, token: str) -> Flow[str]:
    """Mark all entries as committed, swap the token, write the commit, move the branch."""
    before = yield from lake.get_branch(branch)
    for _, entry in (yield kv_scan(f"staged/{before.token}/")):
        if entry != TOMBSTONE:
            yield from mark(entry.address, before.token, "committed")
    sealed = yield from lake.seal(branch, token)
    yield from lake.write_commit(branch, sealed, commit_id)
    return "committed"


def reset(branch: str, token: str) -> Flow[str]:
    """Reset branch: its entries' records say `deleted`, those of tombstones go."""
    for old in (yield from lake.reset(branch, token)):
        for path, entry in (yield kv_scan(f"staged/{old}/")):
            if isinstance(entry, Entry) and entry != TOMBSTONE:
                yield from mark(entry.address, old, "deleted")
            yield kv_delete(f"staged/{old}/{path}")
    return "reset"


def job(*addresses: str, since: int = 0, oldest: bool = True) -> Flow[str]:
    """The background delete job, once over these addresses.

    Args:
        addresses: what it looks at.
        since: it begins at this hour.
        oldest: the oldest of the records must be old enough, as the document says; False: the newest.
    """
    yield wait_until(since)
    for address in addresses:
        now = yield read_clock()
        found = yield kv_scan(f"references/{address}/")
        if any(reference.state == "committed" for _, reference in found):
            for state in ("deleted", "staged", "committed"):
                for token, reference in found:
                    if reference.state == state:
                        yield kv_delete(f"references/{address}/{token}")
        elif _is_over(found, now, oldest):
            yield delete_object(address)
            for token, _ in found:
                yield kv_delete(f"references/{address}/{token}")
    return "done"


def _is_over(found: Sequence[tuple[str, Reference]], now: int, oldest: bool) -> bool:
    """Say whether all records are `deleted`, for long enough."""
    if not found or any(reference.state != "deleted" for _, reference in found):
        return False
    return now - (min if oldest else max)(reference.modified for _, reference in found) > TBD
