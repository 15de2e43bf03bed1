"""Design 2: a reference counter on the object, or wherever a store lets it be changed under a condition.

The flows are the same for every place; what differs is whether a write can be conditional on the counter that was
read. Entries are removed before the counter goes down, which is the safer of the two orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.simulation.proposals import lake
from tests.simulation.proposals.lake import Entry
from tests.simulation.proposals.world import (
    AnswerLostError,
    Flow,
    Object,
    RefusedError,
    Step,
    World,
    delete_object,
    head,
    kv_delete,
    kv_delete_if,
    kv_get,
    kv_scan,
    kv_set_if,
    put_if_match,
    set_meta,
    set_meta_if_etag,
    set_meta_if_generation,
)

type Place = Literal["s3", "s3-etag", "metadata", "sidecar", "kv"]
"""s3: metadata by a copy over itself. s3-etag: the same with If-Match. metadata: Azure, Google. sidecar: an object of
its own that holds the number, written with If-Match on its ETag. kv: a record in the key-value store."""

ATTEMPTS = 3


@dataclass(frozen=True)
class Design:
    """One way to build the design.

    Args:
        place: where the counter is.
        claim: an entry is removed under the condition that it is still there, so that one of two removers counts.
        entry_first: the entry goes before the counter does, not after it.
        look_again: after the entry went, and before anything is counted, the branch must still have the token.
    """

    place: Place = "s3"
    claim: bool = False
    entry_first: bool = True
    look_again: bool = False


def world(design: Design, count: int, **staged: str) -> World:
    """One object, data/a, on which the counter stands, and entries of the branch main by path."""
    made = lake.world(
        objects=("data/a",), staged={f"t1/{path}": lake.entry(to) for path, to in staged.items()}
    )
    if design.place == "kv":
        made.kv["refs/data/a"] = (count, 0)
    elif design.place == "sidecar":
        made.objects["refs/data/a"] = Object(f"{count}#0")
    else:
        made.objects["data/a"] = Object(lake.body_of("data/a"), count)
    return made


@dataclass(frozen=True)
class Counter:
    """What was read.

    Args:
        count: the number.
        seen: what a conditional write compares.
    """

    count: int
    seen: object


def read(design: Design, address: str) -> Flow[Counter | None]:
    """Read a counter; None when there is none."""
    if design.place == "kv":
        value = yield kv_get(f"refs/{address}")
        return value and Counter(value[0], value)
    if design.place == "sidecar":
        found = yield head(f"refs/{address}")
        return found and Counter(int(found.body.partition("#")[0]), found.body)
    found = yield head(address)
    if found is None or found.meta is None:
        return None
    return Counter(found.meta, found.generation if design.place == "metadata" else found.body)


def write(design: Design, address: str, old: Counter, count: int) -> Step:
    """Write a counter, under whatever condition the place knows."""
    if design.place == "kv":
        assert isinstance(old.seen, tuple)
        return kv_set_if(f"refs/{address}", (count, old.seen[1] + 1), old.seen)
    if design.place == "sidecar":
        number = int(str(old.seen).partition("#")[2]) + 1
        return put_if_match(f"refs/{address}", f"{count}#{number}", str(old.seen))
    if design.place == "metadata":
        assert isinstance(old.seen, int)
        return set_meta_if_generation(address, count, old.seen)
    return (
        set_meta_if_etag(address, count, str(old.seen))
        if design.place == "s3-etag"
        else set_meta(address, count)
    )


def change(design: Design, address: str, by: int) -> Flow[int]:
    """Count up or down, again while somebody else was faster; returns the new number."""
    for _ in range(ATTEMPTS):
        old = yield from read(design, address)
        if old is None or old.count <= 0:
            raise RefusedError(f"{address} counts as deleted")
        try:
            if (yield write(design, address, old, old.count + by)):
                return old.count + by
        except AnswerLostError:
            continue  # done or not? The counter does not tell
    raise RefusedError("somebody else was always faster")


def link(design: Design, path: str, address: str) -> Flow[None]:
    """Stage object, LinkPhysicalAddress: count up, then stage."""
    yield from change(design, address, 1)
    yield from lake.stage("main", path, lake.entry(address))


def delete(design: Design, path: str) -> Flow[str]:
    """Delete object: count down, and the last one deletes."""
    token = (yield from lake.get_branch("main")).token
    found = yield from lake.get_entry(token, path)
    if design.entry_first:
        yield from remove(design, f"staged/{token}/{path}", found)
    if design.look_again and (yield from lake.get_branch("main")).token != token:
        raise RefusedError("the token has changed")
    yield from release(design, found.address)
    if not design.entry_first:
        yield from remove(design, f"staged/{token}/{path}", found)
    return "deleted"


def remove(design: Design, key: str, found: Entry) -> Flow[None]:
    """Remove the entry; with a claim, whoever comes second is refused."""
    if not design.claim:
        yield kv_delete(key)
    elif not (yield kv_delete_if(key, found)):
        raise RefusedError("somebody else deleted it")


def release(design: Design, address: str) -> Flow[None]:
    """Count down and delete the object at zero."""
    if (yield from change(design, address, -1)) == 0:
        yield delete_object(address)


def reset(design: Design, token: str) -> Flow[str]:
    """Reset branch: the dropped entries are counted down one by one."""
    for old in (yield from lake.reset("main", token)):
        for path, entry in (yield kv_scan(f"staged/{old}/")):
            yield kv_delete(f"staged/{old}/{path}")
            yield from release(design, entry.address)
    return "reset"
