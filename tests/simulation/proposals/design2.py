"""Design 2: a reference counter on the object, or in another place with conditional changes.

The flows are the same for every place; the difference is whether a write can be conditional on the counter. Entries are
removed before the counter is decreased: the safer of the two orders.
"""

from typing import Any, Literal

from tests.simulation.proposals import lake
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, Chapter, Claim
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.world import (
    Flow,
    Object,
    RefusedError,
    Step,
    World,
    delete_object,
    head,
    kv_delete_if,
    kv_get,
    kv_set_if,
    set_meta_if_etag,
    set_meta_if_generation,
)

type Place = Literal["s3", "metadata", "kv"]
"""s3: metadata by a copy over itself with If-Match. metadata: Azure, Google. kv: a record in the key-value store."""
KEY = "refs/data/a"


def _world(place: Place) -> World:
    made = lake.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})
    if place == "kv":
        made.kv[KEY] = (1, 0)
    else:
        made.objects["data/a"] = Object(lake.body_of("data/a"), 1)
    return made


def read(place: Place) -> Flow[tuple[int, object]]:
    """Read the counter of data/a, and the condition of a write."""
    found = yield (kv_get(KEY) if place == "kv" else head("data/a"))
    if found is None:
        raise RefusedError("data/a counts as deleted")
    if place == "kv":
        return found[0], found
    return found.meta, found.generation if place == "metadata" else found.body


def write(place: Place, seen: Any, count: int) -> Step:
    if place == "kv":
        return kv_set_if(KEY, (count, seen[1] + 1), seen)
    if place == "metadata":
        return set_meta_if_generation("data/a", count, seen)
    return set_meta_if_etag("data/a", count, seen)


def change(place: Place, by: int) -> Flow[int]:
    """Increase or decrease the counter, again after each lost race; returns the new number."""
    for _ in range(3):
        count, seen = yield from read(place)
        if count <= 0:
            raise RefusedError("data/a counts as deleted")
        if (yield write(place, seen, count + by)):
            return count + by
    raise RefusedError("somebody else was always faster")


def link(place: Place) -> Flow[None]:
    """Stage object, LinkPhysicalAddress: count up, then stage."""
    yield from change(place, 1)
    yield from lake.stage("main", "y", lake.entry("data/a"))


def delete(place: Place) -> Flow[str]:
    """Delete object: remove the entry as it was read, decrease the counter, and delete the object at 0."""
    token = (yield from lake.get_branch("main")).token
    found = yield from lake.get_entry(token, "x")
    if not (yield kv_delete_if(f"staged/{token}/x", found)):
        raise RefusedError("somebody else deleted it")
    if (yield from change(place, -1)) == 0:
        yield delete_object("data/a")
    return "deleted"


def link_beside_delete(place: Place) -> Scene:
    return Scene(
        _world(place),
        {"Linker": lambda: link(place), "Deleter": lambda: delete(place)},
        lake.losses,
        at_rest=lake.leaks,
    )


def delete_beside_commit() -> Scene:
    return Scene(
        _world("kv"),
        {"Deleter": lambda: delete("kv"), "Committer": lambda: lake.commit("main", "c1", "t2")},
        lake.losses,
        at_rest=lake.leaks,
    )


def crash() -> Scene:
    return Scene(_world("kv"), {"Deleter": lambda: delete("kv")}, lake.losses, at_rest=lake.leaks, crashes=1)


CHAPTER = Chapter(
    "2",
    "A reference counter on the object's metadata",
    "Staging an address counts up, removing an entry counts down, and the operation that comes to zero deletes the "
    "object.",
    (
        Claim(
            "counter-s3",
            "Blocker 1",
            "AWS cannot set metadata under a condition: the only one is on the ETag, which follows from the bytes.",
            lambda: link_beside_delete("s3"),
            LOSS,
            "Both read 1. The linker's 2 is overwritten by the deleter's 0.",
        ),
        Claim(
            "counter-metadata",
            "Azure, Google",
            "Azure and Google set metadata under a condition.",
            lambda: link_beside_delete("metadata"),
            NOTHING,
            "A conditional write never overwrites an unread number.",
        ),
        Claim(
            "counter-kv",
            "today",
            "The counter in a cell with conditional writes: a record, or an object beside it.",
            lambda: link_beside_delete("kv"),
            NOTHING,
            "S3 no longer has this blocker. The problems below remain.",
        ),
        Claim(
            "counter-commit",
            "beyond",
            "A deletion beside a commit.",
            delete_beside_commit,
            LOSS,
            "Entry and counter are right, each for itself; that the token is sealed and read already is in neither.",
        ),
        Claim(
            "counter-crash",
            "beyond",
            "A server dies between the entry and the counter.",
            crash,
            LEAK,
            "The number stays too high for ever.",
        ),
    ),
)
