"""Design 1: staged objects are in the object store alone, at `<branch>/<token>/<path>`.

There are no staged entries: the listing below the token is the staging area.
"""

from tests.simulation.proposals import lake
from tests.simulation.proposals.catalogue import LEAK, LOSS, Chapter, Claim
from tests.simulation.proposals.explorer import Scene, Trouble
from tests.simulation.proposals.lake import Branch, Commit, Entry
from tests.simulation.proposals.world import (
    Actor,
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


def _world(**staged: str) -> World:
    made = lake.world(objects=("outside/a",))
    made.kv["branch/dev"] = Branch("c0", "d1")
    made.objects.update({f"main/t1/{path}": Object(body) for path, body in staged.items()})
    return made


def upload(path: str, body: str) -> Flow[None]:
    """Write to the path below the branch's token; the request ends some time later."""
    found = yield from lake.get_branch("main")
    yield put(f"main/{found.token}/{path}", body)


def upload_new(path: str, body: str) -> Flow[str]:
    """With conditional writes: every upload has a unique key and checks the token once more."""
    for attempt in range(2):
        found = yield from lake.get_branch("main")
        if not (yield put_if_absent(f"main/{found.token}/{path}/{attempt}", body)):
            raise RefusedError("the key is taken")
        if (yield kv_get("branch/main")) == found:
            return "uploaded"
    raise RefusedError("main moves all the time")


def link(branch: str, path: str, address: str) -> Flow[None]:
    """Stage an existing object: as a small pointer object, the only possible way."""
    found = yield from lake.get_branch(branch)
    if (yield head(address)) is None:
        raise RefusedError(f"there is no {address}")
    yield put(f"{branch}/{found.token}/{path}", address, POINTER)


def commit() -> Flow[str]:
    """New token, list below the old one, write the commit."""
    before = yield from lake.get_branch("main")
    if not (yield kv_set_if("branch/main", Branch(before.head, "t2", (before.token,)), before)):
        raise RefusedError("main was changed")
    prefix = f"main/{before.token}/"
    listed = yield list_objects(prefix)
    entries = tuple((key.removeprefix(prefix), Entry(key, found.body)) for key, found in listed)
    yield kv_set("commit/c1", Commit(before.head, entries))
    yield kv_set("branch/main", Branch("c1", "t2"))
    return "committed"


def delete_branch() -> Flow[None]:
    """Delete the branch, then every object below its token."""
    tokens = yield from lake.delete_branch("main")
    for key, _ in (yield list_objects(f"main/{tokens[0]}/")):
        yield delete_object(key)


def troubles(world: World) -> list[Trouble]:
    """Missing or changed committed objects, and staged pointers without a target."""
    staged = tuple(f"{name}/{branch.token}/" for name, branch in lake.branches(world))
    return lake.losses(world) + [
        Trouble("loss", f"{key} points to {found.body}, which does not exist")
        for key, found in sorted(world.objects.items())
        if found.meta == POINTER and key.startswith(staged) and found.body not in world.objects
    ]


def leaks(world: World, _ends: object = None) -> list[Trouble]:
    """Objects below a token without a branch or a commit; they are never listed again."""
    tokens = tuple(f"{name}/{branch.token}/" for name, branch in lake.branches(world))
    live = {entry.address for _, entry in lake.readable(world)}
    return [
        Trouble("leak", f"{key} stays for ever: its token is nobody's, and no commit has it")
        for key in sorted(world.objects)
        if key not in live and not key.startswith((*tokens, "outside/"))
    ]


def _scene(world: World, **actors: Actor) -> Scene:
    return Scene(world, actors, troubles, at_rest=leaks)


CHAPTER = Chapter(
    "1",
    "Staged data in the object store, on a defined path",
    "There is no staging area but the objects below `<branch>/<token>/`. A commit lists them; deleting a branch "
    "deletes them.",
    (
        Claim(
            "store-commit",
            "Blocker 1",
            "A write that ends after the commit has read its object changes committed data.",
            lambda: _scene(_world(x="1"), Writer=lambda: upload("x", "2"), Committer=commit),
            LOSS,
            "The address of the object is its path, so the late write lands on what the commit names.",
        ),
        Claim(
            "store-new-key",
            "Open 1",
            "How can data be kept from changing after the commit? With a separate key for each upload "
            "(If-None-Match), and a second check of the token.",
            lambda: _scene(_world(), Writer=lambda: upload_new("x", "2"), Committer=commit),
            LEAK,
            "Nothing committed changes. But the path is no longer defined, and a late upload leaves an object below "
            "an unused token.",
        ),
        Claim(
            "store-ingest",
            "Open 2",
            "How is ingested data managed? As an object that points outside.",
            lambda: _scene(_world(), Importer=lambda: link("main", "x", "outside/a"), Remover=delete_branch),
            LEAK,
            "The data outside stays; the pointer can leak, as any late write.",
        ),
        Claim(
            "store-link",
            "Open 3",
            "How are symlinks and stageObject handled? As an object that points to another one.",
            lambda: _scene(
                _world(x="1"), Linker=lambda: link("dev", "y", "main/t1/x"), Remover=delete_branch
            ),
            LOSS,
            "A pointer does not keep its target. It takes no race.",
        ),
    ),
)
