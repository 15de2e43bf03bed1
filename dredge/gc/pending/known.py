"""The pending list that a run builds on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dredge.errors import FormatError, RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.gc.state.store import StateStore
from dredge.gc.witness.consents import OWN, read_consents
from dredge.gc.witness.owner import keeps_id
from dredge.gc.witness.ownership import Site
from dredge.gc.witness.past import FORGET_LOST
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_file, to_json
from dredge.runs.pending.store import Expected, PendingList, Stored, leave_list, read_list
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import at_once
from dredge.xid import descending_time

NAME = "known.json"
_SAID = {
    FORGET_LOST: "a person gave up what was lost with lakeFS's database since",
    OWN: "the namespace was handed to another server since",
}
_OLDER = "it is older than the state of earlier runs, so that somebody put it back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What subtract read; a payload.

    Attributes:
        etag: of the pointer to the list; None without one.
        pending: the list; None where there is none that counts.
        grace: how long garbage waits.
    """

    etag: str | None = None
    pending: PendingList | None = None
    grace: timedelta = timedelta(0)

    @property
    def parts(self) -> list[PartInfo]:
        """Files of rows in the folder of lease and index."""
        return [] if self.pending is None else list(self.pending.parts.values())


def find_list(state: ObjectWriter, namespace: str, created_at: datetime | None, now: datetime) -> Stored:
    """Read the list of a namespace, and see whether a run may believe it.

    Args:
        state: on the folder of lease and index.
        namespace: URI of the storage namespace.
        created_at: when the repository was made; None if the server does not return it.
        now: the store's time.

    Raises:
        RefusedError: a newer version of Dredge wrote it.
    """
    with at_once() as ask:
        newest_read = ask(StateStore(state).newest)
        expected = expected_list(state, namespace, created_at)
    bounds = [] if expected.valid_from is None else [(expected.valid_from, expected.why)]
    with suppress(FormatError):  # a pointer that cannot be read makes no list older
        newest = newest_read.result()
        if newest is not None:
            # A run leaves its list before its state, and its id counts whole seconds.
            bounds.append((descending_time(newest.run_id) - timedelta(seconds=1), _OLDER))
    if bounds:
        valid_from, why = max(bounds)
        expected = replace(expected, valid_from=valid_from, why=why)
    return read_list(state, expected, now)


def expected_list(state: ObjectReader, namespace: str, created_at: datetime | None) -> Expected:
    """What a list about a namespace must be to be believed, by what persons said; see `find_list`."""
    said = max(read_consents(state, *_SAID), key=lambda consent: consent.at, default=None)
    expected = Expected(
        subject=canonical_namespace(namespace), life="" if created_at is None else created_at.isoformat()
    )
    return expected if said is None else replace(expected, valid_from=said.at, why=_SAID[said.kind])


def note_list(run: Run, record: StepRecord) -> Known:
    """Read the list that a run builds on, and note it among the files of subtract.

    Args:
        run: this run.
        record: of subtract.

    Raises:
        RefusedError: an optimized run has no list to build on, or a newer version of Dredge wrote it.
    """
    plan, created_at = run.plan, _created_at(record)
    with at_once() as ask:
        keeps = ask(keeps_id, Site.of_run(run))
        stored = find_list(run.state, plan.namespace, created_at, run.store_now())
    if stored.pending is None and plan.mode != CLEAN:
        raise RefusedError(
            f"run {plan.run_id} builds on the pending list of earlier runs, and that cannot be used any more:"
            f" {stored.problem or 'it is gone'}. Nothing was deleted. Start a new run, which will be a clean one."
        )
    if stored.problem:
        record.warn(f"everything waits anew: the pending list cannot be used: {stored.problem}")
    grace = plan.config.grace(plan.undo.way, keeps.result())
    known = Known(etag=stored.etag, pending=stored.pending, grace=grace)
    data = json.dumps(to_json(known), sort_keys=True).encode()
    rows = 0 if known.pending is None else known.pending.rows
    record.parts.append(run.folder.write_bytes(f"subtract/{NAME}", data, rows))
    return known


def known_list(folder: RunFolder, part: PartInfo) -> Known:
    """The list that subtract noted.

    Args:
        folder: the run folder.
        part: of subtract.

    Raises:
        FormatError: it is not as it was written.
    """
    return from_file(Known, json.loads(folder.read_bytes(part)))


def leave(run: Run, record: StepRecord, known: Known, bits: int, parts: Mapping[int, PartInfo]) -> None:
    """Leave the list after a complete mark. The parts are written.

    Args:
        run: whose mark it is; it holds the lease.
        record: of check_limits.
        known: what subtract noted.
        bits: there are 2**bits shards.
        parts: files of rows by number of the shard.

    Raises:
        ConflictError: another run has left its list since.
        OvertakenError: a later try of the step was begun.
    """
    plan, created_at, now = run.plan, _created_at(record), run.store_now()
    run.check_right(now)
    pending = PendingList(
        subject=canonical_namespace(plan.namespace),
        life="" if created_at is None else created_at.isoformat(),
        run_id=plan.run_id,
        marked_at=plan.created_at,
        left_at=now,
        bits=bits,
        parts=parts,
    )
    leave_list(run.state, pending, known.etag)


def _created_at(record: StepRecord) -> datetime | None:
    text = record.input(ListCommittedOutput).detail("witness")["repository_created_at"]
    return None if text is None else datetime.fromisoformat(text)
