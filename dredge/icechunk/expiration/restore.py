"""Undo an expiration of spec 2: restore the earlier repo info, byte for byte.

Each change of the repo info first copies it to `overwritten/`, so the earlier bytes still exist. They are restored only
if no other operation followed the expiration, and if every object of the old history still exists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import named_ids
from dredge.icechunk.collection.kinds import OBJECT_FOLDERS
from dredge.icechunk.collection.witness.record import FORGET_LOST, read_known
from dredge.icechunk.expiration.stored import AppliedExpiration, read_applied
from dredge.icechunk.format.repo_info import OVERWRITTEN, REPO_KEY, RepoInfo, Update, parse_repo_info
from dredge.icechunk.history import History
from dredge.icechunk.ids import hashes_of_names
from dredge.icechunk.maintenance import open_state, right_to_work
from dredge.icechunk.repository import history_of, spec_version
from dredge.runs.clock import Clock, utc_now
from dredge.runs.consents import record_consent
from dredge.storage import ObjectReader, StorageOptions, open_deleter, open_reader, open_writer
from dredge.xid import new_xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The outcome of a restored expiration.

    Attributes:
        snapshots: snapshots in the history again.
        refs: labels of restored refs.
    """

    snapshots: int
    refs: tuple[str, ...]


def restore_expiration(
    uri: str,
    expiration_id: str,
    holder: str | None = None,
    options: StorageOptions | None = None,
    clock: Clock = utc_now,
) -> Restored:
    """Undo an expiration of spec 2. A repeated restore changes nothing.

    Args:
        expiration_id: printed by the expiration, and listed by `dredge icechunk runs`.
        holder: of the lease; None is this restore alone.
        options: None reads the environment.

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
            f"{uri}: only expirations of spec 2 can be restored; this one was applied on spec 1"
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
                    f"{uri}: this store gives no ETags, so a conditional write is not possible"
                )
            # Before the write: after a kill in between, a repeated restore still finds all this in the log.
            _accept(uri, later, f"expiration {expiration_id} was restored", options)
            _drop_copies(uri, [update.backup for update in later if update.backup is not None], options)
            writer.put_if_match(REPO_KEY, data, etag)
    return Restored(
        snapshots=len(old.snapshots) - len(now.snapshots),
        refs=tuple(sorted(_labels(old) - _labels(now))),
    )


def _split(info: RepoInfo, record: AppliedExpiration, uri: str) -> tuple[Sequence[Update], Update]:
    for place, update in enumerate(info.updates):
        if update.operation == record.before:
            return info.updates[:place], update
        deleted = update.kind.endswith(" deleted") and update.label in record.refs_deleted
        if update.kind != "expiration ran" and not deleted:
            what = f"{update.kind} {update.ref or ''}".strip()
            raise RefusedError(
                f"{uri}: '{what}' followed expiration {record.expiration_id} and would be lost. Nothing was changed."
                " Snapshots that no collection deleted can still be read from the copies in overwritten/."
            )
    raise RefusedError(
        f"{uri}: the operations log no longer holds the state before expiration {record.expiration_id}. Nothing was"
        " changed."
    )


def _accept(uri: str, later: Sequence[Update], why: str, options: StorageOptions | None) -> None:
    """Accept that the log loses the last mark's newest operation, if it is one of the expiration; nothing else."""
    state = open_state(uri, options)
    known = read_known(state)[0].operation
    if known is not None and known in {update.operation for update in later}:
        record_consent(state, FORGET_LOST, uri, why, {"operation": [*known]}, None)


def _copy(reader: ObjectReader, name: str) -> tuple[bytes, RepoInfo]:
    key = OVERWRITTEN + name
    try:
        data = reader.get(key)
    except NotFoundError:
        raise RefusedError(f"{reader.uri}/{key}, the repo info before the expiration, is gone") from None
    return data, parse_repo_info(data, key)


def _demand_objects(reader: ObjectReader, history: History) -> None:
    try:
        needed, _ = named_ids(reader, history)
    except FormatError as error:
        raise _collected(reader.uri, str(error)) from None
    # Without transaction logs: the first snapshot has none, and a collection deletes snapshots before their logs.
    for kind in ("snapshots", "manifests", "chunks"):
        prefix = OBJECT_FOLDERS[kind]
        present = [
            hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(prefix)))[0]
            for batch in reader.list(prefix)
        ]
        if absent := int((~sets.contains(sets.unite(present), needed[kind])).sum()):
            raise _collected(reader.uri, f"{absent:,} {kind} are missing")


def _collected(uri: str, what: str) -> RefusedError:
    return RefusedError(
        f"{uri}: {what}: a collection deleted objects that the expiration had released. Nothing was changed. Restore"
        " them first: dredge icechunk restore URI RUN --all."
    )


def _drop_copies(uri: str, names: Collection[str], options: StorageOptions | None) -> None:
    if not names:
        return
    # They hold operations missing in the restored log: every later run would see an older version of the repo info.
    outcomes = open_deleter(uri, options).delete([OVERWRITTEN + name for name in names])
    failed = [outcome.key for outcome in outcomes if outcome.outcome == "failed"]
    if failed:
        raise UnavailableError(
            f"{uri}: {', '.join(failed)} could not be deleted. The repo info was not changed. Run the restore again."
        )


def _labels(info: RepoInfo) -> set[str]:
    return {ref.label for ref in history_of(info).refs}
