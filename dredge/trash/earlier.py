"""What earlier runs removed: verified after a run that did not end, and put back when a record names it by now.

An operation of the server that takes longer than the grace period may come to name what two looks saw unused.
Whatever was removed in the last week is therefore compared with the references at every look.
"""

from __future__ import annotations

import logging
from datetime import datetime

from dredge.errors import NotFoundError
from dredge.kv.rows import RowCleaner, show
from dredge.trash.apply import Applier, NamedAgainError
from dredge.trash.finding import TrashFinding
from dredge.trash.look import Look
from dredge.trash.names import parse_instance
from dredge.trash.state import TrashState
from dredge.trash.undo import put_back

log = logging.getLogger("dredge")


def named_after_removal(state: TrashState, look: Look) -> dict[bytes, str]:
    """Partitions removed by earlier runs that a record names by now, with the run that removed each."""
    named = set(look.references.partitions) | set(look.references.tokens)
    return {name: run for name, run in state.removed().items() if name in named}


def named_again(partition: bytes, run_id: str) -> TrashFinding:
    """Report a partition that `named_after_removal` found."""
    why = (
        f"removed by run {run_id} and now named by a record: the next clean puts it back, or restore that run"
    )
    return TrashFinding(partition, None, "named-after-removal", "report", why)


def put_back_named(store: RowCleaner, state: TrashState, look: Look) -> None:
    """Undo what earlier runs removed and a record names by now: an operation took longer than the grace
    period.

    Raises:
        NamedAgainError: there was something to put back.
    """
    named = named_after_removal(state, look)
    if not named:
        return
    written = 0
    for run_id in sorted(set(named.values())):
        written += put_back(store, state.undo(run_id).read(lambda row: row.partition in named))[0]
    state.forget_removed(named)
    raise NamedAgainError(
        f"{', '.join(sorted(show(name) for name in named))}: removed as trash by an earlier run, and now named"
        f" by a record. {written} rows were put back. Nothing else was touched. An operation of the server took"
        " longer than the grace period: lengthen it."
    )


def verify_open_run(store: RowCleaner, state: TrashState, now: datetime) -> None:
    """Look after a run that ended while it was removing: is anything named that it took? What it took is
    remembered from then on."""
    run_id = state.open_run()
    if run_id is None:
        return
    log.warning("trash: run %s ended while it was removing; verifying what it removed", run_id)
    with store.view() as view:
        partitions = set(view.partitions())
    unrecorded = [name for name in partitions if parse_instance(name)]
    try:
        # Its undo files name rows that it was about to delete, also of partitions that stay and lost single keys.
        keyed = {finding.partition for finding in state.plan(run_id).findings if finding.key is not None}
    except NotFoundError:
        keyed = set()
    applier = Applier(store, state.undo(run_id), state.check_right, unrecorded)
    try:
        taken = applier.verify_removed(keyed)
    except NamedAgainError:
        state.set_open_run(None)  # it is put back
        raise
    state.note_removed(taken - partitions, run_id, now, forget=False)  # nobody has looked at the others yet
    state.set_open_run(None)
