"""The pending list before a run, and the deletions of the run before it."""

import json
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Self

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import FormatError, RefusedError
from dredge.gc.config import CLEAN
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.run import Run
from dredge.gc.state import StateStore, open_base
from dredge.gc.witness.owner import OWN, Site, keeps_id
from dredge.gc.witness.record import FORGET_LOST
from dredge.runs.consents import read_consents
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, to_json
from dredge.runs.pending.rows import Mask
from dredge.runs.pending.store import Expected, PendingList, Stored, fetch_list, read_list
from dredge.runs.run import StepRecord
from dredge.sets.hashes import Hashes, contains, read_hashes
from dredge.storage import ObjectReader, ObjectWriter, open_writer
from dredge.storage.parallel import at_once
from dredge.xid import descending_time

NAME = "known.json"
_SAID = {
    FORGET_LOST: "commits lost with lakeFS's database were given up since",
    OWN: "the namespace was handed to another server since",
}
_OLDER = "it is older than the state of earlier runs, so an older copy was restored"


class Known(Struct, frozen=True, kw_only=True):
    """The list read by subtract."""

    etag: str | None = None  # of the pointer to the list, or None
    pending: PendingList | None = None  # None without a usable list
    grace: timedelta = timedelta(0)  # the wait of garbage

    @property
    def parts(self) -> list[PartInfo]:
        """Files of rows in the folder of lease and index."""
        return [] if self.pending is None else list(self.pending.parts.values())

    def find_due_parts(self, marked_at: datetime, cutoff: datetime) -> list[PartInfo]:
        """Return the files that may have rows for which a run without a complete listing must look."""
        if self.pending is None:
            return []
        facts = self.pending.facts
        return [
            part
            for shard, part in self.pending.parts.items()
            if shard not in facts or facts[shard].has_due(marked_at, self.grace, cutoff)
        ]


def find_list(state: ObjectWriter, namespace: str, created_at: datetime | None, now: datetime) -> Stored:
    """Read the list of a namespace and check whether a run may use it, by the creation date of the repository, if the
    server returns it."""
    with at_once() as ask:
        newest_read, fetched = ask(StateStore(state).newest), ask(fetch_list, state)
        expected = expected_list(state, namespace, created_at)
    bounds = [] if expected.valid_from is None else [(expected.valid_from, expected.why)]
    with suppress(FormatError):  # an unreadable pointer is no evidence against the list
        newest = newest_read.result()
        if newest is not None:
            # A run leaves its list before its state, and its id counts whole seconds.
            bounds.append((descending_time(newest.run_id) - timedelta(seconds=1), _OLDER))
    if bounds:
        valid_from, why = max(bounds)
        expected = replace(expected, valid_from=valid_from, why=why)
    return read_list(state, expected, now, fetched.result())


def expected_list(state: ObjectReader, namespace: str, created_at: datetime | None) -> Expected:
    """Return the conditions of a usable list, by people's statements; see `find_list`."""
    said = max(read_consents(state, *_SAID), key=lambda consent: consent.at, default=None)
    expected = Expected(subject=canonical_namespace(namespace), life=life_of(created_at))
    return expected if said is None else replace(expected, valid_from=said.at, why=_SAID[said.kind])


def read_before(run: Run, committed: ListCommittedOutput) -> tuple[Stored, bool]:
    """Read the list before a run, and whether the server keeps the id of a mark."""
    with at_once() as ask:
        keeps = ask(keeps_id, Site.of_run(run))
        stored = find_list(run.state, run.plan.namespace, created_at_of(committed), run.store_now())
    return stored, keeps.result()


def note_list(run: Run, record: StepRecord, stored: Stored, keeps: bool) -> Known:
    """Add the list before a run, from `read_before`, to the files of subtract."""
    plan = run.plan
    if stored.pending is None and plan.mode != CLEAN:
        raise RefusedError(
            f"run {plan.run_id} needs the pending list of earlier runs, which has become unusable:"
            f" {stored.problem or 'it is missing'}. Nothing was deleted. Start a new run, which will be a clean one."
        )
    if stored.problem:
        record.warn(f"the wait of all objects starts again: {stored.problem}")
    grace = plan.config.grace(plan.undo.way, keeps)
    known = Known(etag=stored.etag, pending=stored.pending, grace=grace)
    data = json.dumps(to_json(known), sort_keys=True).encode()
    rows = 0 if known.pending is None else known.pending.rows
    record.parts.append(run.folder.write_bytes(f"subtract/{NAME}", data, rows))
    return known


def created_at_of(committed: ListCommittedOutput) -> datetime | None:
    """Return the creation date of the repository, as the mark read it."""
    text = committed.detail("witness")["repository_created_at"]
    return None if text is None else datetime.fromisoformat(text)


def life_of(created_at: datetime | None) -> str:
    """Return the id of the life of a repository."""
    return "" if created_at is None else created_at.isoformat()


class Gone(Struct, frozen=True, kw_only=True):
    """Hashes of the deletions of a run."""

    uri: str = ""  # of its folder; "" without a run
    parts: list[PartInfo] = field(default_factory=list)  # files of sorted hashes

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the deletions of the run with the newest state, for clean runs as well."""
        if run.plan.state is None:
            return cls()
        state = open_base(run, run.plan.state).state
        return cls(uri=state.run_uri, parts=list(state.gone))

    def among(self, hashes: Hashes) -> Mask:
        """Return for each hash whether the run deleted it."""
        found = np.zeros(len(hashes), bool)
        if self.parts:
            folder = RunFolder(open_writer(self.uri), "an earlier run")
            for part in self.parts:
                found |= contains(read_hashes(folder, part), hashes)
        return found
