"""Statements of people about a repository, and Airflow Variables binding its runs. Both are stored with the state.

    <state>/people/<id>-<kind>.json         who, when, why and what
    <state>/variables/<id>-<name>.json      a Variable binding a run

A record is written once and never changed. Ids grow with the store's time.

A secrets backend without an answer looks like a missing Variable, and a run without `dredge_policy` has no bounds.
So if a recorded Variable is missing, a person must confirm its removal (`forget_variable`). The latest record
or confirmation counts.
"""

import getpass
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader, ObjectWriter, store_clock
from dredge.storage.parallel import ordered_map
from dredge.xid import new_xid

PEOPLE = "people"
_AT_ONCE = 16


class Consent(Struct, frozen=True, kw_only=True):
    """A statement of a person; a payload."""

    consent_id: str  # later records have greater ids
    kind: str  # name of the command or of its option, such as `own` or `lift-block`
    repository: str
    who: str
    at: datetime
    why: str
    what: Mapping[str, Any] = field(default_factory=dict)


def record_consent(
    state: ObjectWriter,
    kind: str,
    repository: str,
    why: str,
    what: Mapping[str, Any] | None = None,
    who: str | None = None,
) -> Consent:
    """Write a statement of a person. Without `who`, it is the login name of this process. Raises ConfigError if the
    reason is empty."""
    reason = check_reason(why)
    now = store_clock(state, "")
    consent = Consent(
        consent_id=new_xid(now),
        kind=kind,
        repository=repository,
        who=who or login_name(),
        at=now,
        why=reason,
        what=dict(what or {}),
    )
    name = f"{PEOPLE}/{consent.consent_id}-{kind}.json"
    state.put_if_absent(name, json.dumps(to_json(consent), indent=1, sort_keys=True).encode())
    return consent


def read_consents(state: ObjectReader, *kinds: str) -> list[Consent]:
    """Read the statements of some kinds, oldest first; without kinds, all. Raises FormatError if a record is
    damaged."""
    names = sorted(item.key for item in state.list_level(f"{PEOPLE}/").objects)
    wanted = [name for name in names if not kinds or _kind(name) in kinds]
    found = ordered_map(lambda name: _read(state, name), wanted, _AT_ONCE)
    return sorted(found, key=lambda consent: (consent.at, consent.consent_id))


def check_reason(why: str) -> str:
    """Return a reason without surrounding blanks. Raises ConfigError if it is empty."""
    if not why.strip():
        raise ConfigError("the reason is empty: say why, it is kept with the state. Nothing was changed.")
    return why.strip()


def login_name() -> str:
    """Return the login name of this process; "unknown" without one, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _kind(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".json").partition("-")[2]


def _read(state: ObjectReader, name: str) -> Consent:
    try:
        return from_file(Consent, json.loads(state.get(name)))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{name} is damaged ({error}). Nothing was deleted. Restore the file, or remove it and give"
            " the command again."
        ) from None


VARIABLES = "variables"
FORGET_VARIABLE = "forget-variable"


def check_variables(
    state: ObjectWriter, repository: str, present: Mapping[str, bool | None], command: str
) -> None:
    """Record the Variables that bind this run, and refuse the run if a recorded Variable is missing. `present`: by
    Variable: True if it binds the run, False if it is missing, None if it exists and does not bind the run. `command`:
    prefix of the command for the confirmation, such as `dredge gc`. Raises RefusedError: a Variable is missing;
    FormatError: a confirmation is damaged."""
    bound = read_bound_variables(state)
    for name in sorted(name for name, found in present.items() if found is False and name in bound):
        raise RefusedError(
            f"{repository} was run under the Variable {name}, and Airflow finds no such Variable now: it was removed,"
            " or the secrets backend that has it does not answer. Nothing was changed. When the Variable is back, clear"
            f' the task. If it was removed on purpose: `{command} forget-variable {repository} {name} --reason "…"`.'
        )
    for name in sorted(name for name, found in present.items() if found and name not in bound):
        now = store_clock(state, "")
        record = json.dumps({"variable": name, "at": now.isoformat()}).encode()
        state.put_if_absent(f"{VARIABLES}/{new_xid(now)}-{name}.json", record)


def read_bound_variables(state: ObjectReader) -> set[str]:
    """Return the recorded Variables except confirmed removals. Raises FormatError if a
    confirmation is damaged."""
    recorded: dict[str, str] = {}
    for key in sorted(item.key for item in state.list_level(f"{VARIABLES}/").objects):
        record_id, _, name = key.rpartition("/")[2].removesuffix(".json").partition("-")
        recorded[name] = record_id
    forgotten = {
        str(said.what["variable"]): said.consent_id for said in read_consents(state, FORGET_VARIABLE)
    }
    return {name for name, record_id in recorded.items() if record_id > forgotten.get(name, "")}


def forget_variable(
    state: ObjectWriter, repository: str, name: str, why: str, who: str | None = None
) -> Consent | None:
    """Record the removal of a Variable by a person. Without `who`, it is the login name of this process; returns the
    statement; None if the Variable is not recorded. Raises ConfigError if the reason is empty."""
    if name not in read_bound_variables(state):
        return None
    return record_consent(state, FORGET_VARIABLE, repository, why, {"variable": name}, who)
