"""Plans and records of expirations, as files beside the repository.

<repository>/_dredge/expirations/<id>/plan.json  plan.txt  plan.html    a plan, for the report and for approval
<repository>/_dredge/expirations/<id>/applied.json                      the applied expiration, for its restore
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.drawing import draw_plan, plan_page
from dredge.icechunk.expiration.in_place import Applied
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.maintenance import EXPIRATIONS, open_state
from dredge.runs.payload import from_json, to_json
from dredge.storage import StorageOptions
from dredge.storage.parallel import ordered_map
from dredge.xid import new_descending_xid

PAGE = "plan.html"
APPLIED = "applied.json"
_AT_ONCE = 16


def store_plan(uri: str, plan: ExpirationPlan, now: datetime, options: StorageOptions | None = None) -> str:
    """Write a plan as data, text and page. Returns the URI of the folder.

    Args:
        now: the name of the folder; newer plans sort first.
        options: None reads the environment.
    """
    state = open_state(uri, options)
    folder = f"{EXPIRATIONS}/{new_descending_xid(now)}"
    state.put(f"{folder}/plan.txt", draw_plan(plan).encode())
    state.put(f"{folder}/{PAGE}", plan_page(uri, plan).encode())
    state.put(f"{folder}/plan.json", plan.dumps().encode())
    return f"{state.uri}/{folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedExpiration:
    """The record of an applied expiration; a payload.

    Attributes:
        expiration_id: its id; newer ids sort first.
        at: time of the application.
        expiration: its settings.
        released: number of released snapshots.
        refs_deleted: labels of deleted refs.
        before: spec 2: kind and time (microseconds since 1970) of the newest operation before it; None on spec 1.
    """

    expiration_id: str
    at: datetime
    expiration: Expiration
    released: int
    refs_deleted: tuple[str, ...]
    before: tuple[str, int] | None = None


def record_applied(
    uri: str, expiration: Expiration, applied: Applied, now: datetime, options: StorageOptions | None = None
) -> Applied:
    """Write the record of an applied expiration with a change. Returns the outcome with the record's id.

    Args:
        now: the name of the record; newer records sort first.
        options: None reads the environment.
    """
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
    """Read the record of an applied expiration.

    Raises:
        ConfigError: no such expiration.
        FormatError: the record is damaged.
    """
    state = open_state(uri, options)
    try:
        data = state.get(f"{EXPIRATIONS}/{expiration_id}/{APPLIED}")
    except NotFoundError:
        raise ConfigError(
            f"{uri}: no expiration {expiration_id} is on record. `dredge icechunk runs` lists them."
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
