"""Records of deletions, and of the last finished check of them against the live set.

    <state>/deletions/<run id>-<try>.u64    sorted hashes of all candidates of the run (Icechunk: and the first 64 bits
                                            of the ids)
    <state>/deletions/<run id>.json         the record
    <state>/checked/<run id>-<try>.u64      sorted hashes of the deleted addresses live at the last check
    <state>/checked.json                    its record, with the compared sweeps

Records of deletions are written before the first deletion, so they also cover a killed sweep, and are kept until no
object of it can be restored. Later runs compare them with the live set. The rows, with addresses and outcomes, stay in
the run's folder.

The record of a check is replaced at its end: after alarms are written and objects are restored. A killed check is
repeated in full. So a later check judges only

    live now, deleted by a sweep not compared before · live now, deleted before, and not live at the last check
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import (
    ConflictError,
    DredgeError,
    FormatError,
    NotFoundError,
    OvertakenError,
    UnavailableError,
)
from dredge.runs.folder import read_json
from dredge.runs.limits import FIRST_OBJECTS_MAX
from dredge.runs.parts import check_digest
from dredge.runs.payload import PartInfo, from_json, from_versioned, to_json
from dredge.runs.run import PlannedRun, RunPlan
from dredge.runs.tries import change_file, read_tagged, replace_again, replace_tagged
from dredge.sets.hashes import NONE, Hashes, from_bytes, to_bytes, unite
from dredge.storage import ObjectReader, ObjectWriter
from dredge.storage.parallel import ordered_map
from dredge.undo.ways import OFF, UndoWay

DELETIONS = "deletions"
# A new number for each new meaning of the hashes: records of another format cannot be compared, and are reported.
FORMAT = 2
_AT_ONCE = 16


class Deletion(Struct, frozen=True, kw_only=True):
    """The candidates of a deleting run."""

    run_id: str
    run_uri: str
    at: datetime  # before the first deletion, by the store's clock
    way: str
    hashes: PartInfo  # file of the sorted hashes of the addresses
    purged_at: datetime | None = None  # time of a complete purge, by the store's clock; None before
    # days until the bucket itself removes old versions; None without such a rule
    expire_days: int | None = None
    format: int = FORMAT

    @property
    def sweep(self) -> str:
        """Run and try of the sweep. A resumed sweep also deletes objects that were added after its start."""
        return self.hashes.key.rpartition("/")[2].removesuffix(".u64")

    def can_come_back(self, now: datetime) -> bool:
        """Whether objects may still be restorable."""
        if self.way == OFF or self.purged_at is not None:
            return False
        return self.expire_days is None or now < self.at + timedelta(days=self.expire_days + 2)


class Deletions(Struct, frozen=True):
    """The records of a repository."""

    found: list[Deletion]
    unread: dict[str, str]  # the error by run, for unreadable records


class DeletingPlan(RunPlan, Protocol):
    """The plan of a deleting run."""

    @property
    def run_uri(self) -> str:
        """URI of the run's folder."""

    @property
    def undo(self) -> UndoWay:
        """The undo way."""


def note_deletion[P: DeletingPlan](run: PlannedRun[P], hashes: Hashes) -> None:
    """Write the record of a sweep before its first deletion; a sweep without candidates has no record. Raises
    FormatError: the record of an earlier sweep of this run is unreadable."""
    if not len(hashes):
        return
    plan, key = run.plan, _key(run.plan.run_id)
    # A run whose earlier steps are done again sweeps other objects; the record has those of every sweep.
    tag, earlier = _noted_before(run.state, key, plan.run_id)
    written = write_hashes(run.state, run.folder.label, unite([hashes, *earlier]))
    deletion = Deletion(
        run_id=plan.run_id,
        run_uri=plan.run_uri,
        at=run.store_now(),
        way=plan.undo.way,
        hashes=written,
        expire_days=plan.undo.expire_days,
    )
    data = _encode(deletion)
    if not replace_again(run.state, key, data, tag, lambda found: found == data):
        raise ConflictError(
            f"run {plan.run_id}: another try of its sweep wrote {run.state.uri}/{key} at the same moment. This try"
            " deleted nothing. Check whether the step is also in progress elsewhere; run it again when it is not."
        )


def _noted_before(state: ObjectReader, key: str, run_id: str) -> tuple[str | None, list[Hashes]]:
    tagged = read_tagged(state, key)
    if tagged is None:
        return None, []
    try:
        earlier = from_versioned(Deletion, json.loads(tagged[1]), FORMAT)
    except ValueError as error:
        raise FormatError(
            f"{state.uri}/{key} is not JSON: {error}. Nothing more is deleted by run {run_id}; start another run."
        ) from None
    (found,) = read_hashes(state, [earlier])
    if isinstance(found, str):
        raise FormatError(f"{found} Nothing more is deleted by run {run_id}; start another run.")
    return tagged[0], [found]


def write_hashes(state: ObjectWriter, label: str, hashes: Hashes) -> PartInfo:
    """Write the hashes of a record."""
    name, data = f"{DELETIONS}/{label}.u64", to_bytes(hashes)
    state.put(name, data)
    return PartInfo(name, len(hashes), len(data), hashlib.sha256(data).hexdigest(), name)


def write_deletion(state: ObjectWriter, deletion: Deletion) -> None:
    """Write the record of a run before it deletes, in place of the one from an earlier try."""
    state.put(_key(deletion.run_id), _encode(deletion))


def _encode(deletion: Deletion) -> bytes:
    return json.dumps(to_json(deletion), sort_keys=True).encode()


def read_deletions(state: ObjectReader) -> Deletions:
    """Read every record of a repository."""
    keys = sorted(
        item.key for item in state.list_level(f"{DELETIONS}/").objects if item.key.endswith(".json")
    )
    found, unread = list[Deletion](), dict[str, str]()

    def read(key: str) -> Deletion | str:
        try:
            return from_versioned(Deletion, read_json(state, key), FORMAT)
        except UnavailableError:
            raise
        except DredgeError as error:
            return f"{state.uri}/{key} cannot be read: {error}"

    for key, item in zip(keys, ordered_map(read, keys, _AT_ONCE), strict=True):
        if isinstance(item, Deletion):
            found.append(item)
        else:
            unread[key.rpartition("/")[2].removesuffix(".json")] = item
    return Deletions(found, unread)


def first_objects_max(state: ObjectReader, way: str, run_id: str) -> int | None:
    """The default limit of objects: `FIRST_OBJECTS_MAX` in the first deleting run without undo, else None. `run_id`:
    the run; its record from an interrupted sweep does not count as an earlier run."""
    if way != OFF:
        return None
    # Runs with undo do not count, as they are no evidence for runs without; nor do unreadable records.
    earlier = any(item.way == OFF and item.run_id != run_id for item in read_deletions(state).found)
    return None if earlier else FIRST_OBJECTS_MAX


def read_hashes(state: ObjectReader, deletions: Sequence[Deletion]) -> Iterator[Hashes | str]:
    """Read the hashes of records, in their order; for unreadable hashes, the reason."""

    def read(deletion: Deletion) -> Hashes | str:
        part = deletion.hashes
        try:
            data = state.get(part.key)
            check_digest(part, data, f"run {deletion.run_id}")
            return from_bytes(data, part.name)
        except (FormatError, NotFoundError) as error:
            return f"{state.uri}/{part.key} cannot be read: {error}"

    return ordered_map(read, deletions, _AT_ONCE)


def note_purged(state: ObjectWriter, run_id: str, at: datetime) -> None:
    """Note the complete purge of a run."""
    change_file(
        state,
        _key(run_id),
        lambda value: replace(from_versioned(Deletion, value, FORMAT), purged_at=at),
    )


def _key(run_id: str) -> str:
    return f"{DELETIONS}/{run_id}.json"


CHECKED = "checked"
_KEY = f"{CHECKED}.json"


class Checked(Struct, frozen=True, kw_only=True):
    """A finished check."""

    run_id: str = ""  # the run of the check; "" without a check
    sweeps: frozenset[str] = frozenset()
    # hashes of deleted addresses live at the check, sorted and distinct
    live: Hashes = field(default_factory=lambda: NONE)
    etag: str | None = None  # of the record; None without a record
    # the reason for an unusable record, so that all deletions are compared again; "" for a usable record
    problem: str = ""


def read_checked(state: ObjectReader) -> Checked:
    """Read the last finished check; a damaged record counts as none."""
    tagged = read_tagged(state, _KEY)
    if tagged is None:
        return Checked()
    try:
        value = json.loads(tagged[1])
        part = from_json(PartInfo, value["live"])
        data = state.get(part.key)
        check_digest(part, data, "the last check")
        live = from_bytes(data, part.name)
        return Checked(run_id=value["run_id"], sweeps=frozenset(value["sweeps"]), live=live, etag=tagged[0])
    except UnavailableError:
        raise
    except (DredgeError, KeyError, TypeError, ValueError) as error:
        return Checked(etag=tagged[0], problem=f"{state.uri}/{_KEY} cannot be used: {error}")


def named_by_check(state: ObjectReader) -> set[str]:
    """Keys of the files of the last finished check, relative to the folder of lease and index; empty without a check.
    Raises FormatError: a damaged record, so its files are unknown."""
    tagged = read_tagged(state, _KEY)
    if tagged is None:
        return set()
    try:
        return {from_json(PartInfo, json.loads(tagged[1])["live"]).key}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{state.uri}/{_KEY} cannot be used: {error}") from None


def write_checked(
    state: ObjectWriter,
    before: Checked,
    label: str,
    run_id: str,
    at: datetime,
    sweeps: Collection[str],
    live: Hashes,
) -> None:
    """Record a finished check. Raises OvertakenError: another run has recorded a check meanwhile."""
    name, data = f"{CHECKED}/{label}.u64", to_bytes(live)
    state.put(name, data)
    part = PartInfo(name, len(live), len(data), hashlib.sha256(data).hexdigest(), name)
    value = {"run_id": run_id, "at": at.isoformat(), "sweeps": sorted(sweeps), "live": to_json(part)}
    encoded = json.dumps(value, sort_keys=True).encode()
    if replace_tagged(state, _KEY, encoded, before.etag):
        return
    now = read_tagged(state, _KEY)
    if now is None or now[1] != encoded:  # our own write with a lost response is no conflict
        raise OvertakenError(
            f"run {run_id}: another run has checked deletions meanwhile. Nothing was deleted. Start a new run."
        )
