"""The last finished check of what runs deleted against what is live: which deletions it covered, and what it found.

    <state>/checked/<run id>-<try>.u64    sorted hashes of the deleted addresses that were live then
    <state>/checked.json                  names it, with the sweeps whose deletions were compared

The record is replaced when a check has done everything: after alarms are written and objects are brought back. A check
that was killed before is done again in full. So a later check has to judge only

    live now, deleted by a sweep that was not compared · live now, deleted before, and not live at the last check
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import DredgeError, FormatError, OvertakenError, UnavailableError
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.folder import check_digest
from dredge.runs.payload import from_json, to_json
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import NONE, Hashes, from_bytes, to_bytes
from dredge.storage import ObjectReader, ObjectWriter

CHECKED = "checked"
_KEY = f"{CHECKED}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A finished check.

    Attributes:
        run_id: the run that made it; "" when there was none yet.
        sweeps: run and try of each sweep whose deletions were compared.
        live: hashes of deleted addresses that were live then, sorted and distinct.
        etag: of the record; None when there is none.
        problem: why the record cannot be used, so that everything is compared again; "" when it can.
    """

    run_id: str = ""
    sweeps: frozenset[str] = frozenset()
    live: Hashes = field(default_factory=lambda: NONE)
    etag: str | None = None
    problem: str = ""


def read_checked(state: ObjectReader) -> Checked:
    """Read the last finished check; a damaged record is as good as none.

    Raises:
        UnavailableError: the store does not answer.
    """
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
    """Keys of the files that the last finished check names, relative to the folder of lease and index; none without
    one.

    Raises:
        FormatError: the record is damaged, so nobody knows what it names.
    """
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
    """Record a finished check.

    Args:
        state: on the folder of lease and index.
        before: the check that this one went on from.
        label: run and try; no other try has it.
        run_id: the run.
        at: the store's time.
        sweeps: run and try of each sweep whose deletions were compared.
        live: hashes of deleted addresses that are live, sorted and distinct.

    Raises:
        OvertakenError: another run has recorded a check meanwhile.
    """
    name, data = f"{CHECKED}/{label}.u64", to_bytes(live)
    state.put(name, data)
    part = PartInfo(name, len(live), len(data), hashlib.sha256(data).hexdigest(), name)
    value = {"run_id": run_id, "at": at.isoformat(), "sweeps": sorted(sweeps), "live": to_json(part)}
    encoded = json.dumps(value, sort_keys=True).encode()
    if replace_tagged(state, _KEY, encoded, before.etag):
        return
    now = read_tagged(state, _KEY)
    if now is None or now[1] != encoded:  # an answer that was lost is no conflict
        raise OvertakenError(
            f"run {run_id}: another run has checked deletions meanwhile. Nothing was deleted. Start a new run."
        )
