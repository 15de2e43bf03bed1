"""Plans of Icechunk expirations.

_dredge/expirations/<id>/plan.json · plan.txt
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.maintenance import EXPIRATIONS
from dredge.pages.places import ICECHUNK, Place
from dredge.runs.folder import read_json
from dredge.runs.lifetimes import run_ids
from dredge.storage import open_reader
from dredge.xid import descending_time

SHOWN = 30


@dataclass(frozen=True, slots=True)
class Expiration:
    """A plan in a list.

    Attributes:
        plan_id: its id.
        made_at: when it was made.
    """

    plan_id: str
    made_at: datetime


def expirations_of(place: Place) -> list[Expiration]:
    """List the newest plans of a repository; none for other kinds."""
    if place.kind != ICECHUNK or not place.lease_uri:
        return []
    reader = open_reader(f"{place.lease_uri}/{EXPIRATIONS}", place.options)
    return [Expiration(name, descending_time(name)) for name in run_ids(reader)[:SHOWN]]


def expiration_of(place: Place, plan_id: str) -> dict[str, Any]:
    """Read a plan.

    Raises:
        NotFoundError: there is none.
        FormatError: it is damaged.
    """
    uri = _uri(place, plan_id)
    found = read_json(open_reader(uri, place.options), "plan.json")
    names = ("rule", "threshold", "digest", "snapshots", "released", "edited", "refs_deleted", "refs")
    if not isinstance(found, dict) or not all(name in found for name in names):
        raise FormatError(f"{uri}/plan.json is not a plan of an expiration")
    return found


def history_of(place: Place, plan_id: str) -> str:
    """Read the history before and after a plan, as text.

    Raises:
        NotFoundError: there is none.
    """
    return open_reader(_uri(place, plan_id), place.options).get("plan.txt").decode(errors="replace")


def _uri(place: Place, plan_id: str) -> str:
    try:
        descending_time(plan_id)
    except FormatError:
        raise NotFoundError("there is no such plan") from None
    if place.kind != ICECHUNK or not place.lease_uri:
        raise NotFoundError("only Icechunk repositories have plans of expirations")
    return f"{place.lease_uri}/{EXPIRATIONS}/{plan_id}"
