"""Design 4: references are a list of tokens for each address, and states belong to tokens.

    references/<address> = list of staging tokens
    deleted/<token>, committed/<commit> = list of tokens

Tokens of resets and commits are recorded, and a background job removes their references; the removal of the last one
deletes the object.
"""

from typing import NamedTuple

from tests.simulation.proposals import lake
from tests.simulation.proposals.catalogue import LEAK, LOSS, NOTHING, Chapter, Claim
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import Branch, Entry
from tests.simulation.proposals.world import (
    Flow,
    RefusedError,
    World,
    after,
    delete_object,
    kv_delete,
    kv_drop,
    kv_get,
    kv_scan,
    kv_set,
    kv_set_if,
    put,
)

ATTEMPTS = 3


class Tokens(NamedTuple):
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "[" + ", ".join(self.names) + "]"


def refer(address: str, token: str, *, is_copy: bool = False) -> Flow[None]:
    """Add a token to the list of an address, again after each lost race. For a copy, an empty list means a running
    deletion, and no list means a commit.
    """
    for _ in range(ATTEMPTS):
        old = yield kv_get(f"references/{address}")
        if is_copy and old is None:
            return
        if is_copy and not old.names:
            raise RefusedError(f"{address} is being deleted")
        names = old.names if old else ()
        if token in names or (yield kv_set_if(f"references/{address}", Tokens((*names, token)), old)):
            return
    raise RefusedError("somebody else was always faster")


def stage(branch: str, path: str, entry: Entry, *, is_copy: bool = False) -> Flow[str]:
    """Refer to an address, then stage it; like every write, again when the token has changed meanwhile."""
    for _ in range(ATTEMPTS):
        token = (yield from lake.get_branch(branch)).token
        yield from refer(entry.address, token, is_copy=is_copy)
        yield kv_set(f"staged/{token}/{path}", entry)
        if (yield from lake.get_branch(branch)).token == token:
            return "staged"
    raise RefusedError(f"{branch} moves all the time")


def upload() -> Flow[str]:
    yield put("data/b", lake.body_of("data/b"))
    return (yield from stage("main", "x", lake.entry("data/b")))


def copy() -> Flow[str]:
    entry = yield from lake.get_entry("t1", "x")
    return (yield from stage("dev", "y", entry, is_copy=True))


def commit() -> Flow[str]:
    """Commit like today, then record the tokens as committed."""
    sealed = yield from lake.seal("main", "t2")
    yield from lake.write_commit("main", sealed, "c1")
    yield kv_set("committed/c1", Tokens(sealed.sealed))
    return "committed"


def reset() -> Flow[str]:
    """Reset like today, then record the tokens as deleted."""
    for old in (yield from lake.reset("main", "t2")):
        yield kv_set(f"deleted/{old}", Tokens())
    return "reset"


def job(*, keep_empty: bool = False) -> Flow[str]:
    """The background delete job, once."""
    for commit_id, tokens in (yield kv_scan("committed/")):
        found = yield kv_get(f"commit/{commit_id}")
        for _, entry in found.entries:
            yield kv_delete(f"references/{entry.address}")
        for token in tokens.names:
            yield kv_set(f"deleted/{token}", Tokens())
        yield kv_delete(f"committed/{commit_id}")
    for token, _ in (yield kv_scan("deleted/")):
        for _, entry in (yield kv_scan(f"staged/{token}/")):
            yield from forget(entry.address, token, keep_empty)
        yield kv_drop(f"staged/{token}/")
        yield kv_delete(f"deleted/{token}")
    return "done"


def forget(address: str, token: str, keep_empty: bool) -> Flow[None]:
    """Remove a reference; the last one deletes the object."""
    for _ in range(ATTEMPTS):
        old = yield kv_get(f"references/{address}")
        if old is None or token not in old.names:
            return
        left = Tokens(tuple(name for name in old.names if name != token))
        if (yield kv_set_if(f"references/{address}", left, old)):
            if not left.names:
                yield delete_object(address)
                if not keep_empty:
                    yield kv_delete(f"references/{address}")
            return


def _world() -> World:
    made = lake.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})
    made.kv["references/data/a"] = Tokens(("t1",))
    made.kv["branch/dev"] = Branch("c0", "d1")
    return made


def override_in_token() -> Scene:
    return Scene(_world(), {"User": lambda: after(upload, reset, job)}, lake.losses, at_rest=lake.leaks)


def copy_beside_job(keep_empty: bool) -> Scene:
    actors = {"Copier": copy, "Job": lambda: after(reset, lambda: job(keep_empty=keep_empty))}
    return Scene(_world(), actors, lake.losses)


def upload_beside_commit() -> Scene:
    return Scene(lake.world(), {"Writer": upload, "Committer": lambda: after(commit, job)}, lake.losses)


CHAPTER = Chapter(
    "4",
    "States of staging tokens",
    "Each address has a list of the tokens that refer to it. Resets and commits put their tokens down, and a job "
    "takes these out of the lists; an empty list means deletion.",
    (
        Claim(
            "tokens-override",
            "Open 1 (TBD)",
            "How is an override in the same token handled?",
            override_in_token,
            LEAK,
            "The job finds addresses through the entries of the token, and the entry does not exist. It takes no race.",
        ),
        Claim(
            "tokens-copy",
            "Assumption 1",
            "An empty list is a deletion on its way; no list is a commit.",
            lambda: copy_beside_job(keep_empty=False),
            LOSS,
            "No list is also a deletion that is over.",
        ),
        Claim(
            "tokens-copy-kept",
            "Assumption 1",
            "The same, and the empty list of a deleted address stays for ever.",
            lambda: copy_beside_job(keep_empty=True),
            NOTHING,
            "It holds, for a record for each object that was ever deleted.",
        ),
        Claim(
            "tokens-commit",
            "beyond",
            "What a committed token holds and the commit does not is deleted.",
            upload_beside_commit,
            LOSS,
            "A writer whose token was sealed meanwhile stages a deleted object again in the new one.",
        ),
    ),
)
