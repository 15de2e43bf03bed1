"""Design 3: the staging manager keeps a record for each reference from a staging token to a physical address.

    references/<address>/<token> = (staged | deleted | committed, last modified)

A background job deletes an address when all its records are `deleted` and the oldest of them is old enough.
"""

from typing import NamedTuple

from tests.simulation.proposals import lake
from tests.simulation.proposals.catalogue import LEAK, LOSS, Chapter, Claim
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import TOMBSTONE, Commit, Entry
from tests.simulation.proposals.world import (
    Flow,
    RefusedError,
    World,
    after,
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
NOW = 3
LATER = NOW + TBD + 2


class Reference(NamedTuple):
    state: str
    modified: int

    def __str__(self) -> str:
        return f"{self.state} {self.modified}:00"


def mark(address: str, token: str, state: str) -> Flow[None]:
    """Set a record, unless it is `committed`, the final state."""
    key = f"references/{address}/{token}"
    now = yield read_clock()
    while True:
        old = yield kv_get(key)
        if old is not None and old.state == "committed":
            return
        if (yield kv_set_if(key, Reference(state, now), old)):
            return


def stage(path: str, entry: Entry) -> Flow[str]:
    """Refer, stage, release the replaced entry; like every write, again when the token has changed meanwhile."""
    for _ in range(3):
        token = (yield from lake.get_branch("main")).token
        old = yield kv_get(f"staged/{token}/{path}")
        yield from mark(entry.address, token, "staged")
        yield kv_set(f"staged/{token}/{path}", entry)
        if old is not None and old != TOMBSTONE:
            yield from mark(old.address, token, "deleted")
        if (yield from lake.get_branch("main")).token == token:
            return "staged"
    raise RefusedError("main moves all the time")


def upload(path: str, address: str) -> Flow[str]:
    yield put(address, lake.body_of(address))
    return (yield from stage(path, lake.entry(address)))


def copy_committed(path: str, to: str) -> Flow[str]:
    head = (yield from lake.get_branch("main")).head
    commit = yield kv_get(f"commit/{head}")
    return (yield from stage(to, dict(commit.entries)[path]))


def upload_and_link() -> Flow[str]:
    """GetPhysicalAddress (its record says `deleted`), an upload, and LinkPhysicalAddress if it is not too late."""
    token = (yield from lake.get_branch("main")).token
    yield from mark("data/a", token, "deleted")
    expires = (yield read_clock()) + TBD
    yield put("data/a", lake.body_of("data/a"))
    if (yield read_clock()) > expires:
        raise RefusedError("too late")
    return (yield from stage("x", lake.entry("data/a")))


def reset() -> Flow[str]:
    """Reset branch: the records of its entries become `deleted`."""
    for old in (yield from lake.reset("main", "t2")):
        for path, entry in (yield kv_scan(f"staged/{old}/")):
            yield from mark(entry.address, old, "deleted")
            yield kv_delete(f"staged/{old}/{path}")
    return "reset"


def job(*addresses: str, since: int) -> Flow[str]:
    """The background delete job, once over these addresses, from an hour on."""
    yield wait_until(since)
    for address in addresses:
        now = yield read_clock()
        found = yield kv_scan(f"references/{address}/")
        over = found and all(reference.state == "deleted" for _, reference in found)
        if over and now - min(reference.modified for _, reference in found) > TBD:
            yield delete_object(address)
            for token, _ in found:
                yield kv_delete(f"references/{address}/{token}")
    return "done"


def overrides() -> Scene:
    world = lake.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})
    world.kv["references/data/a/t1"], world.now = Reference("staged", 0), NOW
    return Scene(
        world,
        {"Writer 1": lambda: upload("x", "data/b"), "Writer 2": lambda: upload("x", "data/c")},
        lake.losses,
        later=(("reset", reset), ("job", lambda: job("data/a", "data/b", "data/c", since=LATER))),
        at_rest=lake.leaks,
    )


def late_link() -> Scene:
    world = World(kv=lake.world().kv, now=NOW)
    return Scene(
        world,
        {"Client": upload_and_link, "Job": lambda: job("data/a", since=NOW + TBD + 1)},
        lake.losses,
        hours=TBD + 1,
    )


def copy_of_committed() -> Scene:
    world = lake.world(objects=("data/a",), head="c1", c1=Commit("c0", (("x", lake.entry("data/a")),)))
    flows = (lambda: copy_committed("x", "y"), reset, lambda: job("data/a", since=TBD + 1))
    return Scene(world, {"User": lambda: after(*flows)}, lake.losses)


CHAPTER = Chapter(
    "3",
    "References tracked in the staging manager",
    "A record for each address and staging token says staged, deleted or committed. A background job deletes an "
    "object if all records have it as deleted for long enough.",
    (
        Claim(
            "tracking-overrides",
            "Open 1",
            "How are overrides dealt with?",
            overrides,
            LEAK,
            "Two writers replace the same entry; each releases the address that it saw, and the losing address is "
            "never released.",
        ),
        Claim(
            "tracking-tbd",
            "Open 2 (TBD)",
            "After some time an address cannot be referenced any more.",
            late_link,
            LOSS,
            "The time is checked, then the entry is written: for any number, a longer request loses.",
        ),
        Claim(
            "tracking-committed",
            "beyond",
            "The records of a committed address are removed.",
            copy_of_committed,
            LOSS,
            "A copy of a committed object recreates the first record, and its reset looks like the last one. Design 4 "
            "names this. It takes no race.",
        ),
    ),
)
