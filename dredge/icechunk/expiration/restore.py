"""Store plans, record applied expirations, and undo an expiration of spec 2.

    <repository>/_dredge/expirations/<id>/plan.json  plan.txt  plan.html    a plan, for the report and for approval
    <repository>/_dredge/expirations/<id>/applied.json                      the applied expiration, for its restore

An undo restores the earlier repo info, byte for byte, from its copy in `overwritten/`. It is refused if another
operation followed the expiration, or if an object of the old history is missing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice

from msgspec import Struct

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk.collection.index import named_ids, read_listed
from dredge.icechunk.collection.witness.record import FORGET_LOST, read_known
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.drawing import draw_plan, plan_page
from dredge.icechunk.expiration.plan import Applied, ExpirationPlan
from dredge.icechunk.format.metadata import COPIES, REPO_KEY, RepoInfo, Update, parse_repo_info
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import EXPIRATIONS, open_state, right_to_work
from dredge.icechunk.repository import history_of, spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.consents import record_consent
from dredge.runs.payload import from_json, to_json
from dredge.sets.hashes import contains
from dredge.storage import ObjectReader, StorageOptions, open_deleter, open_reader, open_writer
from dredge.storage.parallel import ordered_map
from dredge.xid import new_descending_xid, new_xid


class Restored(Struct, frozen=True, kw_only=True):
    """The outcome of a restored expiration: restored snapshots, and labels of restored refs."""

    snapshots: int
    refs: tuple[str, ...]


def restore_expiration(
    uri: str,
    expiration_id: str,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Restored:
    """Undo an expiration of spec 2. A second restore changes nothing.

    Raises:
        ConfigError: no such expiration, or one of spec 1.
        RefusedError: other operations followed it, its copy of the repo info is missing, or released objects were
            deleted. Nothing was changed.
        LeaseHeldError: another run works on the repository.
        ConflictError: a writer changed the repo info at the same moment.
        UnavailableError: copies of the expiration's own states could not be deleted. The repo info was not changed.
    """
    record = read_applied(uri, expiration_id, options)
    if spec_version(open_reader(uri, options)) != 2 or record.before is None:
        raise ConfigError(
            f"{uri}: the expiration was applied on spec 1; only expirations of spec 2 can be restored"
        )
    with right_to_work(uri, holder or f"restore of expiration {new_xid(clock())}", None, options):
        writer = open_writer(uri, options)
        etag = writer.stat(REPO_KEY).etag  # the tag first: a change after it makes the write below fail
        now = parse_repo_info(writer.get(REPO_KEY))
        later, before = _split(now, record, uri)
        old = now
        if before.backup is not None:  # else it is restored already
            data, old = _copy(writer, before.backup)
            _demand_objects(writer, history_of(old))
            if etag is None:
                raise RefusedError(
                    f"{uri}: this store returns no ETags, so conditional writes are not possible"
                )
            # Before the write: after a kill in between, a repeated restore still finds all this in the log.
            _accept(uri, later, f"expiration {expiration_id} was restored", options)
            _drop_copies(uri, [update.backup for update in later if update.backup is not None], options)
            writer.put_if_match(REPO_KEY, data, etag)
    return Restored(
        snapshots=len(old.snapshots) - len(now.snapshots), refs=tuple(sorted(_labels(old) - _labels(now)))
    )


def _split(info: RepoInfo, record: AppliedExpiration, uri: str) -> tuple[Sequence[Update], Update]:
    for place, update in enumerate(info.updates):
        if update.operation == record.before:
            return info.updates[:place], update
        deleted = update.kind.endswith(" deleted") and update.label in record.refs_deleted
        if update.kind != "expiration ran" and not deleted:
            what = f"{update.kind} {update.ref or ''}".strip()
            raise RefusedError(
                f"{uri}: operation '{what}' followed expiration {record.expiration_id} and would be lost. Nothing was"
                " changed. Snapshots that no collection deleted can be read from the copies in overwritten/."
            )
    raise RefusedError(
        f"{uri}: the operations log no longer has the state before expiration {record.expiration_id}, so it cannot be"
        " restored. Nothing was changed."
    )


def _accept(uri: str, later: Sequence[Update], why: str, options: StorageOptions | None) -> None:
    """Accept that the log loses the last mark's newest operation, if it is one of the expiration; nothing else."""
    state = open_state(uri, options)
    known = read_known(state)[0].operation
    if known is not None and known in {update.operation for update in later}:
        record_consent(state, FORGET_LOST, uri, why, {"operation": [*known]}, None)


def _copy(reader: ObjectReader, name: str) -> tuple[bytes, RepoInfo]:
    key = COPIES + name
    try:
        data = reader.get(key)
    except NotFoundError:
        raise RefusedError(f"{reader.uri}/{key}, the repo info before the expiration, is missing") from None
    return data, parse_repo_info(data, key)


def _demand_objects(reader: ObjectReader, history: History) -> None:
    try:
        needed, _ = named_ids(reader, history)
    except FormatError as error:
        raise _collected(reader.uri, str(error)) from None
    # Without transaction logs: the first snapshot has none, and a collection deletes snapshots before their logs.
    for kind in ("snapshots", "manifests", "chunks"):
        if absent := int((~contains(read_listed(reader, kind), needed[kind])).sum()):
            raise _collected(reader.uri, f"{absent:,} {kind} are missing")


def _collected(uri: str, what: str) -> RefusedError:
    return RefusedError(
        f"{uri}: {what}, because a collection deleted objects that the expiration released. Nothing was changed."
        " Restore the objects first: dredge icechunk restore URI RUN --all."
    )


def _drop_copies(uri: str, names: Collection[str], options: StorageOptions | None) -> None:
    if not names:
        return
    # They hold operations missing in the restored log: every later run would see an older version of the repo info.
    outcomes = open_deleter(uri, options).delete([COPIES + name for name in names])
    failed = [outcome.key for outcome in outcomes if outcome.outcome == "failed"]
    if failed:
        raise UnavailableError(
            f"{uri}: {', '.join(failed)} could not be deleted. The repo info was not changed. Run the restore again."
        )


def _labels(info: RepoInfo) -> set[str]:
    return {ref.label for ref in history_of(info).refs}


PAGE = "plan.html"
APPLIED = "applied.json"
_AT_ONCE = 16


def store_plan(uri: str, plan: ExpirationPlan, now: datetime, options: StorageOptions | None = None) -> str:
    """Write a plan as data, text and page into a new folder; returns the folder's URI. Newer folders sort first."""
    state = open_state(uri, options)
    folder = f"{EXPIRATIONS}/{new_descending_xid(now)}"
    state.put(f"{folder}/plan.txt", draw_plan(plan).encode())
    state.put(f"{folder}/{PAGE}", plan_page(uri, plan).encode())
    state.put(f"{folder}/plan.json", plan.dumps().encode())
    return f"{state.uri}/{folder}"


class AppliedExpiration(Struct, frozen=True, kw_only=True):
    """The record of an applied expiration, a payload. Newer ids sort first."""

    expiration_id: str
    at: datetime
    expiration: Expiration
    released: int  # number of released snapshots
    refs_deleted: tuple[str, ...]  # labels of deleted refs
    # Spec 2: kind and time (microseconds since 1970) of the newest operation before it; None on spec 1.
    before: tuple[str, int] | None = None


def record_applied(
    uri: str, expiration: Expiration, applied: Applied, now: datetime, options: StorageOptions | None = None
) -> Applied:
    """Record an applied expiration, unless it changed nothing; returns the outcome with the record's id."""
    if applied.plan.is_empty and not applied.refs_deleted:
        return applied
    record = AppliedExpiration(
        expiration_id=new_descending_xid(now),
        at=now,
        expiration=expiration,
        released=len(applied.plan.released),
        refs_deleted=tuple(ref.label for ref in applied.refs_deleted),
        before=applied.before,
    )
    data = json.dumps(to_json(record), indent=1, sort_keys=True).encode()
    open_state(uri, options).put(f"{EXPIRATIONS}/{record.expiration_id}/{APPLIED}", data)
    return replace(applied, expiration_id=record.expiration_id)


def read_applied(uri: str, expiration_id: str, options: StorageOptions | None = None) -> AppliedExpiration:
    """Read the record of an applied expiration; ConfigError if there is none."""
    state = open_state(uri, options)
    try:
        data = state.get(f"{EXPIRATIONS}/{expiration_id}/{APPLIED}")
    except NotFoundError:
        raise ConfigError(
            f"{uri}: expiration {expiration_id} is unknown. `dredge icechunk runs` lists all expirations."
        ) from None
    return from_json(AppliedExpiration, json.loads(data))


def list_applied(uri: str, limit: int, options: StorageOptions | None = None) -> list[AppliedExpiration]:
    """List the records of applied expirations, newest first; a `limit` of 0 is all."""

    def read(folder: str) -> AppliedExpiration | None:
        with suppress(ConfigError):  # a folder with a plan only
            return read_applied(uri, folder.rstrip("/").rpartition("/")[2], options)
        return None

    folders = open_state(uri, options).list_level(f"{EXPIRATIONS}/").folders
    found = (record for record in ordered_map(read, folders, _AT_ONCE) if record is not None)
    return list(islice(found, limit or None))
