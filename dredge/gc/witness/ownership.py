"""The owner of a namespace: the environment (a lakeFS server) whose runs may delete there.

    <state>/owner.json            the owner
    <state>/visitors/<id>.json    the last run of each other server

The first complete mark in a namespace writes the owner; after that only a person changes it (`dredge gc own`).
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from dredge.errors import ConflictError, FormatError
from dredge.gc.run import Run
from dredge.lakefs import Environment, LakeFS
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader, ObjectWriter, store_clock

OWNER = "owner.json"
VISITORS = "visitors"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The last run of a server that does not own the namespace; a payload.

    Attributes:
        environment: the server.
        repository: name in that server.
        run_id: of the run.
        at: by the store's clock.
        dry_run: whether it was a dry run.
    """

    environment: Environment
    repository: str
    run_id: str
    at: datetime
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Site:
    """A namespace and the server through which a run works on it.

    Attributes:
        state: on the folder of lease and index.
        client: the server.
        repository: name in that server.
        run_id: of the run.
    """

    state: ObjectWriter
    client: LakeFS
    repository: str
    run_id: str

    @classmethod
    def of_run(cls, run: Run) -> Site:
        """The site of a collection's run."""
        return cls(run.state, run.client, run.plan.repository, run.plan.run_id)

    def now(self) -> datetime:
        """The store's time."""
        return store_clock(self.state, "")


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


def note_visitor(site: Site, environment: Environment, dry_run: bool) -> None:
    """Note the run of a server that does not own the namespace, for the owner's next run."""
    found = Visitor(
        environment=environment,
        repository=site.repository,
        run_id=site.run_id,
        at=site.now(),
        dry_run=dry_run,
    )
    name = hashlib.sha256(f"{environment.url} {environment.installation_id}".encode()).hexdigest()[:16]
    data = json.dumps(to_json(found), indent=1, sort_keys=True).encode()
    site.state.put(f"{VISITORS}/{name}.json", data)


def read_visitors(state: ObjectReader, owner: Owner) -> list[Visitor]:
    """Read the last run of each server other than the owner, the oldest first.

    Raises:
        FormatError: a record is damaged.
    """
    names = [item.key for item in state.list_level(f"{VISITORS}/").objects]
    found = [_parse(Visitor, state, name, state.get(name)) for name in names]
    others = [visitor for visitor in found if not owner.includes(visitor.environment)]
    return sorted(others, key=lambda visitor: visitor.at)


def _encode(owner: Owner) -> bytes:
    return json.dumps(to_json(owner), indent=1, sort_keys=True).encode()


def _read_tagged(state: ObjectReader) -> tuple[str | None, Owner | None]:
    tagged = read_tagged(state, OWNER)
    if tagged is None:
        return None, None
    found = _parse(Owner, state, OWNER, tagged[1])
    if found.format > _FORMAT:
        raise FormatError(
            f"{state.uri}/{OWNER} is of a newer version of Dredge: use that one. Nothing was deleted."
        )
    return tagged[0], found


def _parse[T](kind: type[T], state: ObjectReader, name: str, data: bytes) -> T:
    try:
        return from_file(kind, json.loads(data))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{name} is damaged ({error}). Nothing was deleted. Restore the file from a backup, or remove"
            " it and say with `dredge gc own` which server owns the namespace."
        ) from None
