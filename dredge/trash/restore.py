"""Restore of a run's removals, and removal of live tokens from the server's drop queue."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from dredge.errors import ConfigError
from dredge.kv.rows import Guard, GuardFailedError, Row, RowCleaner, show
from dredge.runs.failures import partial_after
from dredge.trash.look import Look, read_look, read_references
from dredge.trash.names import BRANCH_PREFIX, MARKERS, parse_instance
from dredge.trash.state import TrashState
from dredge.trash.waiting import forget
from dredge.xid import new_descending_xid

log = logging.getLogger("dredge")


def restore(
    store: RowCleaner,
    state: TrashState,
    run_id: str,
    *,
    partitions: Iterable[bytes] | None = None,
    dry_run: bool = True,
) -> dict[str, Any]:
    """Restore the removed rows of a run; existing keys stay unchanged.

    The wait of restored rows begins again. A queue marker is not restored if a branch references its token: the server
    would delete the branch's acknowledged uploads.
    """
    asked = None if partitions is None else frozenset(partitions)
    with state.held(f"restore {run_id}") as held:
        held.claim(store)
        if run_id not in held.runs():
            raise ConfigError(
                f"{state.writer.uri} has no run {run_id}. Its runs: {', '.join(held.runs()) or 'none'}"
            )
        undo = held.undo(run_id)

        def wanted(row: Row) -> bool:
            return asked is None or row.partition in asked

        count: Counter[bytes] = Counter()
        markers: set[bytes] = set()
        back: set[tuple[bytes, bytes | None]] = set()
        for row in undo.read(wanted):
            count[row.partition] += 1
            back.update([(row.partition, None), (row.partition, row.key)])
            if row.partition == MARKERS:
                markers.add(row.key)
        left = _live_tokens(store, markers)
        absent = sorted((asked or frozenset()) - count.keys())
        if absent:
            raise ConfigError(f"run {run_id} removed no row of {', '.join(map(show, absent))}")
        result = {"run_id": run_id, "status": "dry_run" if dry_run else "done"}
        if dry_run:
            return result | {"rows": count.total() - len(left), "markers_of_live_tokens": len(left)}
        if back:
            forget(held, store, back, run_id)
        written: Counter[bool] = Counter()
        with partial_after(lambda: f"{written[True]:,} rows were restored." if written[True] else ""):
            for row in undo.read(
                lambda row: wanted(row) and not (row.partition == MARKERS and row.key in left)
            ):
                written[store.insert_row(row)] += 1
        held.forget_removed([name for name in held.removed() if asked is None or name in asked], run_id)
    log.info("trash: run %s: %d rows restored, %d keys existed", run_id, written[True], written[False])
    return result | {
        "rows_written": written[True],
        "keys_existing": written[False],
        "markers_of_live_tokens": len(left),
    }


def _live_tokens(store: RowCleaner, tokens: set[bytes]) -> set[bytes]:
    """The tokens with a reference in a branch, also in a repository without a record."""
    if not tokens:
        return tokens
    with store.view() as view:
        lives = [name for name in view.partitions() if parse_instance(name)]
        return tokens.intersection(read_references(view, lives).tokens)


def unqueue(
    store: RowCleaner, state: TrashState, *, clock: Callable[[], datetime], dry_run: bool = True
) -> list[dict[str, Any]]:
    """Remove the queue markers of live tokens (referenced by a branch of an active repository).

    The server can queue a live token: if the database's answer to the update of a branch is lost, the server reports an
    error and queues the new token. Its next drop would delete acknowledged uploads. Removing such a marker deletes no
    data. A person starts it, because the marker is the trace of a failure of the server. Returns one entry per marker:
    `token`, `branches` with a reference, and `fate` (`would remove`, `removed`, `changed`)."""
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
    """Branch records with a reference to a token, of active repositories, as guards."""
    return [
        Guard(partition, BRANCH_PREFIX + branch.name.encode(), branch.value)
        for partition in sorted(look.references.tokens.get(token, ()))
        if partition in look.references.partitions and look.references.partitions[partition].state == "active"
        for branch in look.references.branches[partition].values()
        if token in branch.tokens
    ]
