"""Design 4: references are a list of tokens for each address, and states belong to tokens.

    references/<address> = list of staging tokens
    deleted/<token>, committed/<commit> = list of tokens

Tokens of resets and commits are put down, and a background job takes their references away; whoever takes the last
one away deletes the object.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.proposals import lake
from tests.simulation.proposals.lake import TOMBSTONE, Entry
from tests.simulation.proposals.world import (
    Flow,
    RefusedError,
    World,
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
    """A list of tokens."""

    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "[" + ", ".join(self.names) + "]"


def world(*, references: dict[str, Tokens], objects: tuple[str, ...], **staged: str) -> World:
    """The branch main, with lists by address."""
    entries = {f"t1/{path}": lake.entry(to) for path, to in staged.items()}
    made = lake.world(objects=objects, staged=entries)
    made.kv.update({f"references/{address}": tokens for address, tokens in references.items()})
    return made


def refer(address: str, token: str) -> Flow[None]:
    """Add a token to the list of an address, again while somebody else was faster."""
    for _ in range(ATTEMPTS):
        old = yield kv_get(f"references/{address}")
        names = old.names if old else ()
        if token in names:
            return
        if (yield kv_set_if(f"references/{address}", Tokens((*names, token)), old)):
            return
    raise RefusedError("somebody else was always faster")


def upload(branch: str, path: str, address: str) -> Flow[str]:
    """Write the blob, refer to it, stage it; as every write, again when the token has changed meanwhile."""
    yield put(address, lake.body_of(address))
    for _ in range(ATTEMPTS):
        token = (yield from lake.get_branch(branch)).token
        yield from refer(address, token)
        yield kv_set(f"staged/{token}/{path}", lake.entry(address))
        if (yield from lake.get_branch(branch)).token == token:
            return "uploaded"
    raise RefusedError(f"{branch} moves all the time")


def copy(source: str, branch: str, path: str) -> Flow[str]:
    """Copy object: refer to it as long as it has a list; without one it counts as committed."""
    entry = yield kv_get(source)
    if not isinstance(entry, Entry) or entry == TOMBSTONE:
        raise RefusedError("the source is not there")
    for _ in range(ATTEMPTS):
        token = (yield from lake.get_branch(branch)).token
        yield from refer_to_copy(entry.address, token)
        yield kv_set(f"staged/{token}/{path}", entry)
        if (yield from lake.get_branch(branch)).token == token:
            return "copied"
    raise RefusedError(f"{branch} moves all the time")


def refer_to_copy(address: str, token: str) -> Flow[None]:
    """As the document has it: an empty list is a deletion on its way, no list is a commit."""
    for _ in range(ATTEMPTS):
        old = yield kv_get(f"references/{address}")
        if old is None:
            return
        if not old.names:
            raise RefusedError(f"{address} is being deleted")
        if token in old.names or (yield kv_set_if(f"references/{address}", Tokens((*old.names, token)), old)):
            return
    raise RefusedError("somebody else was always faster")


def commit(branch: str, commit_id: str, token: str) -> Flow[str]:
    """Commit as today, then put the tokens down as committed."""
    sealed = yield from lake.seal(branch, token)
    yield from lake.write_commit(branch, sealed, commit_id)
    yield kv_set(f"committed/{commit_id}", Tokens(sealed.sealed))
    return "committed"


def reset(branch: str, token: str) -> Flow[str]:
    """Reset as today, then put the tokens down as deleted."""
    for old in (yield from lake.reset(branch, token)):
        yield kv_set(f"deleted/{old}", Tokens())
    return "reset"


def job(*, keep_empty: bool = False) -> Flow[str]:
    """The background delete job, once.

    Args:
        keep_empty: the empty list of a deleted address stays for ever, so that nobody takes it for a committed one.
    """
    for commit_id, tokens in (yield kv_scan("committed/")):
        found = yield kv_get(f"commit/{commit_id}")
        for _, entry in found.entries:
            yield kv_delete(f"references/{entry.address}")
        for token in tokens.names:
            yield kv_set(f"deleted/{token}", Tokens())
        yield kv_delete(f"committed/{commit_id}")
    for token, _ in (yield kv_scan("deleted/")):
        for _, entry in (yield kv_scan(f"staged/{token}/")):
            if entry != TOMBSTONE:
                yield from forget(entry.address, token, keep_empty)
        yield kv_drop(f"staged/{token}/")
        yield kv_delete(f"deleted/{token}")
    return "done"


def forget(address: str, token: str, keep_empty: bool) -> Flow[None]:
    """Take a reference away; the last one takes the object with it."""
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
