"""Variables of Airflow that bind the runs of a repository, and a missing one that stops the next run.

    <state>/variables/<id>-<name>.json

A secrets backend that does not answer looks like a Variable that does not exist, and a run without `dredge_policy` has
no bounds. So the state of a repository has a record of each Variable that a run was bound by. Where one is missing, a
person confirms that it was removed (`forget_variable`). Ids of records and of confirmations grow with the store's time;
the latest counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dredge.errors import RefusedError
from dredge.runs.consents import Consent, read_consents, record_consent
from dredge.storage import ObjectReader, ObjectWriter, store_clock
from dredge.xid import new_xid

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
