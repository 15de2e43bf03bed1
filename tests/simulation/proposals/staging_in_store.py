"""Design 1: what is staged lies in the object store alone, at `<branch>/<token>/<path>`.

There are no staged entries: the listing below the token is the staging area. A commit lists it and keeps the
addresses; deleting a branch deletes what lies below its token.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.proposals import lake
from tests.simulation.proposals.explorer import Trouble
from tests.simulation.proposals.lake import Branch, Commit, Entry
from tests.simulation.proposals.world import (
    Flow,
    Object,
    RefusedError,
    World,
    delete_object,
    head,
    kv_get,
    kv_set,
    kv_set_if,
    list_objects,
    put,
    put_if_absent,
)

POINTER = "pointer"


def world(**staged: str) -> World:
    """The branch main with objects below its token: bytes by path."""
    made = lake.world()
    for path, body in staged.items():
        made.objects[f"main/t1/{path}"] = Object(body)
    return made


def upload(branch: str, path: str, body: str) -> Flow[None]:
    """Write to the path of the token that the branch has; the request takes its time and ends some time later."""
    found = yield from lake.get_branch(branch)
    yield put(f"{branch}/{found.token}/{path}", body)


def upload_new(branch: str, path: str, body: str, name: str, attempts: int = 2) -> Flow[str]:
    """What conditional writes allow: every upload has a key of its own and looks at the token once more."""
    for attempt in range(attempts):
        found = yield from lake.get_branch(branch)
        if not (yield put_if_absent(f"{branch}/{found.token}/{path}/{name}{attempt}", body)):
            raise RefusedError("the key is taken")
        if (yield kv_get(f"branch/{branch}")) == found:
            return "uploaded"
    raise RefusedError(f"{branch} moves all the time")


def link(branch: str, path: str, address: str) -> Flow[None]:
    """Stage an object that is there already: a small object that points to it, as nothing else can be staged."""
    found = yield from lake.get_branch(branch)
    if (yield head(address)) is None:
        raise RefusedError(f"there is no {address}")
    yield put(f"{branch}/{found.token}/{path}", address, POINTER)


def commit(branch: str, commit_id: str, token: str) -> Flow[str]:
    """New token, list below the old one, write the commit."""
    before = yield from lake.get_branch(branch)
    if not (yield kv_set_if(f"branch/{branch}", Branch(before.head, token, (before.token,)), before)):
        raise RefusedError(f"{branch} was changed")
    prefix = f"{branch}/{before.token}/"
    listed = yield list_objects(prefix)
    entries = tuple((key.removeprefix(prefix), Entry(key, found.body)) for key, found in listed)
    yield kv_set(f"commit/{commit_id}", Commit(before.head, entries))
    yield kv_set(f"branch/{branch}", Branch(commit_id, token))
    return "committed"


def delete_branch(branch: str) -> Flow[None]:
    """Delete the branch, then every object below its token."""
    tokens = yield from lake.delete_branch(branch)
    for key, _ in (yield list_objects(f"{branch}/{tokens[0]}/")):
        yield delete_object(key)


def troubles(world: World) -> list[Trouble]:
    """Committed objects that are gone or changed, and staged pointers that lead nowhere."""
    return lake.losses(world) + [
        Trouble("loss", f"{key} points to {found.body}, which is gone")
        for key, found in _pointers(world)
        if found.body not in world.objects
    ]


def _pointers(world: World) -> Iterator[tuple[str, Object]]:
    for name, branch in lake.branches(world):
        for key, found in sorted(world.objects.items()):
            if found.meta == POINTER and key.startswith(f"{name}/{branch.token}/"):
                yield key, found


def leaks(world: World, _ends: object = None) -> list[Trouble]:
    """Objects below a token that no branch has and no commit names; nobody looks there again."""
    tokens = {f"{name}/{branch.token}/" for name, branch in lake.branches(world)}
    live = {entry.address for _, entry in lake.readable(world)}
    return [
        Trouble("leak", f"{key} stays for ever: its token is nobody's, and no commit has it")
        for key in sorted(world.objects)
        if key not in live and key.count("/") > 1 and not key.startswith((*tokens, "data/"))
    ]
