"""The owner of a namespace: the environment (a lakeFS server) whose runs may delete there.

    <state>/owner.json

The first complete mark in a namespace writes it; after that only a person changes it (`dredge gc own`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import ConflictError, FormatError
from dredge.lakefs import Environment
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.payload import from_json, to_json
from dredge.storage import ObjectReader, ObjectWriter

OWNER = "owner.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a namespace; a payload.

    Attributes:
        environment: the server.
        aliases: other URLs of the same server.
        since: when it became the owner, by the store's clock.
        run_id: the run that made it the owner; "" where a person did.
        format: of this record.
    """

    environment: Environment
    since: datetime
    run_id: str = ""
    aliases: tuple[str, ...] = ()
    format: int = _FORMAT

    def includes(self, found: Environment) -> bool:
        """Whether a server is the owner: one of its URLs, and no other installation id where both have one."""
        ids = {self.environment.installation_id, found.installation_id} - {None}
        return found.url in (self.environment.url, *self.aliases) and len(ids) < 2

    def with_alias(self, url: str) -> Owner:
        """The same owner with another URL."""
        return replace(self, aliases=tuple(sorted({*self.aliases, url})))


def read_owner(state: ObjectReader) -> Owner | None:
    """Read the owner of a namespace; None if there is none yet.

    Raises:
        FormatError: the record is damaged, or a newer version wrote it.
    """
    return _read_tagged(state)[1]


def claim(state: ObjectWriter, owner: Owner) -> Owner:
    """Make an environment the owner if the namespace has none; returns the owner then."""
    with suppress(ConflictError):  # another server was first, or the response to this request was lost
        state.put_if_absent(OWNER, _encode(owner))
    found = read_owner(state)
    if found is None:
        raise FormatError(f"{state.uri}/{OWNER} was written and is not there. Nothing was deleted.")
    return found


def replace_owner(state: ObjectWriter, owner: Owner) -> None:
    """Replace the owner, whoever it is.

    Raises:
        ConflictError: another process replaced it at the same moment.
    """
    etag, _ = _read_tagged(state)
    if not replace_tagged(state, OWNER, _encode(owner), etag) and read_owner(state) != owner:
        raise ConflictError(f"{state.uri}/{OWNER} was changed at the same moment. Give the command again.")


def _encode(owner: Owner) -> bytes:
    return json.dumps(to_json(owner), indent=1, sort_keys=True).encode()


def _read_tagged(state: ObjectReader) -> tuple[str | None, Owner | None]:
    tagged = read_tagged(state, OWNER)
    if tagged is None:
        return None, None
    try:
        found = from_json(Owner, json.loads(tagged[1]))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{OWNER} is damaged ({error}). Nothing was deleted. Restore the file from a backup, or remove"
            " it: the next complete run then makes its own server the owner."
        ) from None
    if found.format > _FORMAT:
        raise FormatError(
            f"{state.uri}/{OWNER} is of a newer version of Dredge: use that one. Nothing was deleted."
        )
    return tagged[0], found
