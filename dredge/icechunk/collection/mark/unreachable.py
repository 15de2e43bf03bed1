"""Since when snapshots of spec 1 have been seen unreachable: `dead.json`, which one run leaves to the next.

{"run_id": …, "dead": {snapshot: ISO time}}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import ConflictError, FormatError, NotFoundError
from dredge.icechunk.collection.run import Run
from dredge.runs.folder import read_json
from dredge.runs.tries import StepTry
from dredge.storage import ObjectReader

log = logging.getLogger("dredge")

UNREACHABLE = "dead.json"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """What earlier runs have seen.

    Attributes:
        since: the first time that each snapshot was seen unreachable.
        etag: of the object that says so; None when there is none.
    """

    since: Mapping[str, datetime] = field(default_factory=dict)
    etag: str | None = None


def read_unreachable(state: ObjectReader) -> Unreachable:
    """Read what earlier runs have seen. From an object that cannot be read nothing is taken: every released
    snapshot is then new, and its grace begins again.

    Raises:
        ConfigError: the object cannot even be looked at, so that nobody could replace it.
    """
    try:
        etag = state.stat(UNREACHABLE).etag or ""
    except NotFoundError:
        return Unreachable()
    try:
        since = read_json(state, UNREACHABLE)["dead"]
        return Unreachable({node: datetime.fromisoformat(time) for node, time in since.items()}, etag)
    except NotFoundError:
        return Unreachable()
    except (FormatError, KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning(
            "%s/%s cannot be read (%s): every released snapshot is new to this run",
            state.uri,
            UNREACHABLE,
            error,
        )
        return Unreachable(etag=etag)


def write_unreachable(run: Run, attempt: StepTry, since: Mapping[str, datetime], etag: str | None) -> None:
    """Replace what earlier runs have seen, unless somebody has looked meanwhile: an older look could name a
    snapshot that was in use since, and shorten its grace.

    Args:
        run: whose lease must stand.
        attempt: the try at work, which must be the newest.
        since: the first time that each unreachable snapshot was seen so.
        etag: of the object as it was read; None when there was none.

    Raises:
        OvertakenError: a later try was begun.
        LeaseHeldError: another run has taken over.
        ConflictError: the object was changed since it was read.
    """
    value = {
        "run_id": run.plan.run_id,
        "dead": {node: time.isoformat() for node, time in sorted(since.items())},
    }
    data = json.dumps(value, indent=1).encode()
    attempt.check()
    run.lease.check(run.plan.lease)
    try:
        if etag is None:
            run.state.put_if_absent(UNREACHABLE, data)
        else:
            run.state.put_if_match(UNREACHABLE, data, etag)
    except ConflictError:
        attempt.check()
        raise ConflictError(
            f"{run.state.uri}/{UNREACHABLE} was changed by another try while this one looked. Nothing was deleted."
            " Run the step again."
        ) from None
