"""lakeFS's behaviour in all designs: branches with tokens, staging, commits, resets; and the readable objects.

Source: lakeFS design "lakeFS on KV" (flows of writer and committer), pkg/graveler/graveler.go.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.simulation.proposals.explorer import Trouble
from tests.simulation.proposals.world import (
    KV,
    Flow,
    Object,
    RefusedError,
    Step,
    World,
    kv_delete_if,
    kv_drop,
    kv_get,
    kv_scan,
    kv_set,
    kv_set_if,
)


class Entry(NamedTuple):
    address: str
    body: str
    locked: bool = False

    def __str__(self) -> str:
        return f"{self.address}{' (locked)' if self.locked else ''}"


TOMBSTONE = Entry("(deleted)", "")


class Branch(NamedTuple):
    head: str
    token: str
    sealed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "/".join((self.head, self.token, *(f"({token})" for token in self.sealed)))


class Commit(NamedTuple):
    parent: str
    entries: tuple[tuple[str, Entry], ...]
    born: int = 0

    def __str__(self) -> str:
        return "{" + ", ".join(f"{path}→{entry}" for path, entry in self.entries) + "}"


def world(
    *, objects: Iterable[str] = (), staged: dict[str, Entry] | None = None, head: str = "c0", **kv: Commit
) -> World:
    """A repository with the branch `main` on token t1, and commits by id; the first is empty."""
    made = World({key: Object(body_of(key)) for key in objects})
    made.kv["commit/c0"] = Commit("", ())
    made.kv.update({f"commit/{name}": commit for name, commit in kv.items()})
    made.kv["branch/main"] = Branch(head, "t1")
    made.kv.update({f"staged/{place}": entry for place, entry in (staged or {}).items()})
    return made


def body_of(address: str) -> str:
    return f"bytes-of-{address.rpartition('/')[2]}"


def entry(address: str) -> Entry:
    return Entry(address, body_of(address))


# --- readable entries ---------------------------------------------------------------------------------------------


def branches(world: World) -> Iterator[tuple[str, Branch]]:
    for key, value in sorted(world.kv.items()):
        if isinstance(value, Branch):
            yield key.removeprefix("branch/"), value


def commits_of(world: World, head: str) -> Iterator[tuple[str, Commit]]:
    while head and isinstance(commit := world.kv.get(f"commit/{head}"), Commit):
        yield head, commit
        head = commit.parent


def staged(world: World, token: str) -> dict[str, Entry]:
    prefix = f"staged/{token}/"
    return {
        key.removeprefix(prefix): value
        for key, value in world.kv.items()
        if key.startswith(prefix) and isinstance(value, Entry)
    }


def visible(world: World, branch: Branch) -> dict[str, Entry]:
    commit = world.kv.get(f"commit/{branch.head}")
    found = dict(commit.entries) if isinstance(commit, Commit) else {}
    for token in reversed((branch.token, *branch.sealed)):
        found.update(staged(world, token))
    return {path: entry for path, entry in found.items() if entry != TOMBSTONE}


def readable(world: World) -> Iterator[tuple[str, Entry]]:
    """All readable entries: of branches, and of every commit reachable from a branch."""
    for name, branch in branches(world):
        for path, entry in visible(world, branch).items():
            yield f"{name}/{path}", entry
        for commit_id, commit in commits_of(world, branch.head):
            for path, entry in commit.entries:
                yield f"{commit_id}/{path}", entry


def losses(world: World) -> list[Trouble]:
    """Every readable entry with a missing or changed object."""
    found = []
    for place, entry in readable(world):
        there = world.objects.get(entry.address)
        if there is None:
            found.append(Trouble("loss", f"{place} reads {entry.address}, which does not exist"))
        elif there.body != entry.body:
            found.append(Trouble("loss", f"{place} reads {entry.address}, which holds other bytes now"))
    return found


def leaks(world: World, _ends: object = None) -> list[Trouble]:
    live = {entry.address for _, entry in readable(world)}
    return [
        Trouble("leak", f"{key} stays for ever: nothing names it, and nobody will delete it")
        for key in sorted(world.objects)
        if key.startswith("data/") and key not in live
    ]


# --- flows --------------------------------------------------------------------------------------------------------


def get_branch(name: str) -> Flow[Branch]:
    found = yield kv_get(f"branch/{name}")
    if found is None:
        raise RefusedError(f"there is no branch {name}")
    assert isinstance(found, Branch)
    return found


def get_entry(token: str, path: str) -> Flow[Entry]:
    found = yield kv_get(f"staged/{token}/{path}")
    if found is None or found == TOMBSTONE:
        raise RefusedError(f"{path} is not staged")
    assert isinstance(found, Entry)
    return found


def stage(branch: str, path: str, entry: Entry, *, attempts: int = 3) -> Flow[str]:
    """Write an entry into the branch's token, again if the token has changed afterwards."""
    for _ in range(attempts):
        before = yield from get_branch(branch)
        yield kv_set(f"staged/{before.token}/{path}", entry)
        after = yield from get_branch(branch)
        if after.token == before.token:
            return before.token
    raise RefusedError(f"{branch} moves all the time")


def seal(branch: str, token: str) -> Flow[Branch]:
    """The first half of a commit: writers get a new token, the old one is sealed."""
    before = yield from get_branch(branch)
    after = Branch(before.head, token, (before.token, *before.sealed))
    if not (yield kv_set_if(f"branch/{branch}", after, before)):
        raise RefusedError(f"{branch} was changed")
    return after


def write_commit(branch: str, sealed: Branch, commit_id: str) -> Flow[Commit]:
    """The second half: the sealed tokens over the head become a commit, the new head of the branch."""
    base = yield kv_get(f"commit/{sealed.head}")
    entries = dict(base.entries)
    for token in reversed(sealed.sealed):
        entries.update((yield kv_scan(f"staged/{token}/")))
    entries = {path: entry._replace(locked=False) for path, entry in entries.items() if entry != TOMBSTONE}
    commit = Commit(sealed.head, tuple(sorted(entries.items())))
    yield set_commit(commit_id, commit)
    if not (yield kv_set_if(f"branch/{branch}", Branch(commit_id, sealed.token), sealed)):
        raise RefusedError(f"{branch} was changed")
    return commit


def set_commit(commit_id: str, commit: Commit) -> Step:
    key = f"commit/{commit_id}"

    def act(world: World) -> None:
        world.kv[key] = commit._replace(born=world.now)

    return Step(KV, f"set {key} = {commit}", act)


def commit(branch: str, commit_id: str, token: str) -> Flow[str]:
    sealed = yield from seal(branch, token)
    yield from write_commit(branch, sealed, commit_id)
    for old in sealed.sealed:
        yield kv_drop(f"staged/{old}/")
    return "committed"


def reset(branch: str, token: str) -> Flow[tuple[str, ...]]:
    """Discard all staged entries: the branch gets a new token; returns the old ones, which still exist."""
    before = yield from get_branch(branch)
    if not (yield kv_set_if(f"branch/{branch}", Branch(before.head, token), before)):
        raise RefusedError(f"{branch} was changed")
    return (before.token, *before.sealed)


def delete_branch(branch: str) -> Flow[tuple[str, ...]]:
    """Delete a branch; returns its tokens, which still exist."""
    before = yield from get_branch(branch)
    if not (yield kv_delete_if(f"branch/{branch}", before)):
        raise RefusedError(f"{branch} was changed")
    return (before.token, *before.sealed)
