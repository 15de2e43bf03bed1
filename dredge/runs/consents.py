"""What people said about a repository, and the Variables of Airflow that bind its runs, kept with the state.

    <state>/people/<id>-<kind>.json         who, when, why and what
    <state>/variables/<id>-<name>.json      a Variable that a run was bound by

A record is written once and never changed. Ids grow with the store's time.

A secrets backend that does not answer looks like a Variable that does not exist, and a run without `dredge_policy` has
no bounds. Where a recorded Variable is missing, a person confirms that it was removed (`forget_variable`). The latest
record or confirmation counts.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader, ObjectWriter, store_clock
from dredge.storage.parallel import ordered_map
from dredge.xid import new_xid

PEOPLE = "people"
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """One statement of a person; a payload.

    Attributes:
        consent_id: its id; later records have greater ids.
        kind: which statement, such as `own` or `lift-block`: the name of the command or of its option.
        repository: its name, or its URI.
        who: login name, or the name that was given.
        at: by the store's clock.
        why: the reason, in the person's words.
        what: the subject, JSON; depends on the kind.
    """

    consent_id: str
    kind: str
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
    """Write down a statement of a person.

    Args:
        state: on the folder of lease and index.
        kind: which statement.
        repository: its name, or its URI.
        why: the reason, in the person's words.
        what: the subject, JSON.
        who: None is the login name of this process.

    Returns:
        The record as it was written.

    Raises:
        ConfigError: there is no reason.
    """
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
    """Read the statements of some kinds, the oldest first.

    Args:
        state: on the folder of lease and index.
        kinds: none is all of them.

    Raises:
        FormatError: a record is damaged.
    """
    names = sorted(item.key for item in state.list_level(f"{PEOPLE}/").objects)
    wanted = [name for name in names if not kinds or _kind(name) in kinds]
    found = ordered_map(lambda name: _read(state, name), wanted, _AT_ONCE)
    return sorted(found, key=lambda consent: (consent.at, consent.consent_id))


def check_reason(why: str) -> str:
    """Return a reason without blanks around it.

    Raises:
        ConfigError: it is empty.
    """
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
    """Refuse a run when a Variable is missing that an earlier run was bound by, and record those that bind this run.

    Args:
        state: on the folder of lease and index.
        repository: its name, or its URI.
        present: for each Variable, whether it exists and binds the run; None where it exists and does not bind the run.
        command: prefix of the command by which a person confirms, such as `dredge gc`.

    Raises:
        RefusedError: a Variable is missing.
        FormatError: a confirmation of a person is damaged.
    """
    bound = bound_by(state)
    for name in sorted(name for name, found in present.items() if found is False and name in bound):
        raise RefusedError(
            f"{repository} was run under the Variable {name}, and Airflow finds no such Variable now: it was removed,"
            " or the secrets backend that has it does not answer. Nothing was touched. When the Variable is back, clear"
            f' the task. If it was removed on purpose: `{command} forget-variable {repository} {name} --reason "…"`.'
        )
    for name in sorted(name for name, found in present.items() if found and name not in bound):
        now = store_clock(state, "")
        record = json.dumps({"variable": name, "at": now.isoformat()}).encode()
        state.put_if_absent(f"{VARIABLES}/{new_xid(now)}-{name}.json", record)


def bound_by(state: ObjectReader) -> set[str]:
    """Return the Variables that runs were bound by, without those that a person has confirmed to be removed.

    Raises:
        FormatError: a confirmation of a person is damaged.
    """
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
    """Record that a person removed a Variable on purpose.

    Args:
        state: on the folder of lease and index.
        repository: its name, or its URI.
        name: of the Variable.
        why: the reason, in the person's words.
        who: None is the login name of this process.

    Returns:
        The statement; None where no run was bound by the Variable.

    Raises:
        ConfigError: there is no reason.
    """
    if name not in bound_by(state):
        return None
    return record_consent(state, FORGET_VARIABLE, repository, why, {"variable": name}, who)
