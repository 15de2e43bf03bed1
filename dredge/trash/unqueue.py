"""Taking live tokens off the server's drop queue.

A server can queue a token that a branch names: the database's answer to the branch's update was lost,
the server reported an error and queued the new token. Its next drop deletes acknowledged uploads. A
token that a branch names is never queued rightfully, so removing the marker is always safe, and in time
it saves the data. A person asks for it: the marker is the server's, and says that something went wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from dredge.kv.rows import Guard, GuardFailedError, Row, RowCleaner
from dredge.runs.failures import partial_after
from dredge.trash.look import Look, read_look
from dredge.trash.names import BRANCH_PREFIX, MARKERS
from dredge.trash.state import TrashState
from dredge.xid import new_descending_xid


def unqueue(
    store: RowCleaner, state: TrashState, *, clock: Callable[[], datetime], dry_run: bool = True
) -> list[dict[str, Any]]:
    """Remove the queue markers of tokens that branches of active repositories name.

    Args:
        store: the store.
        state: where the undo file goes.
        clock: this machine's time (aware UTC).
        dry_run: only say which.

    Returns:
        One entry a marker: token, branches that name it, and what was done (`would remove`, `removed`,
        `changed`).
    """
    run_id = new_descending_xid(clock())
    with state.held(f"unqueue {run_id}") as held:
        held.claim(store)
        look = read_look(store)
        undo = held.undo(run_id)
        done: list[dict[str, Any]] = []
        for token, value in sorted(look.small.get(MARKERS, {}).items()):
            naming = _naming(look, token)
            if not naming:
                continue
            fate = "would remove"
            if not dry_run:
                row = Row(MARKERS, token, value)
                undo.write([row])
                held.check_right()
                with partial_after(lambda: _removed_so_far(done)):
                    try:
                        fate = "removed" if store.delete_rows([row], naming) == [True] else "changed"
                    except GuardFailedError:
                        fate = "changed"
            names = [guard.key[len(BRANCH_PREFIX) :].decode("utf-8", "replace") for guard in naming]
            done.append({"token": token.decode("utf-8", "backslashreplace"), "branches": names, "fate": fate})
        return done


def _removed_so_far(done: Iterable[Mapping[str, Any]]) -> str:
    tokens = [line["token"] for line in done if line["fate"] == "removed"]
    return f"The markers of {', '.join(tokens)} were removed." if tokens else ""


def _naming(look: Look, token: bytes) -> list[Guard]:
    """The records of active repositories' branches that name a token, as guards."""
    return [
        Guard(partition, BRANCH_PREFIX + branch.name.encode(), branch.value)
        for partition in sorted(look.references.tokens.get(token, ()))
        if partition in look.references.partitions and look.references.partitions[partition].state == "active"
        for branch in look.references.branches[partition].values()
        if token in branch.tokens
    ]
