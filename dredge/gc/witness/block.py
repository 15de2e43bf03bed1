"""The block: after a refusal by a witness no run, purge or collection of metadata deletes in the namespace.

    <state>/block.json    the newest block: in force, or lifted by a person

Its place is fixed, whatever run root a run has. Only the owner's runs leave one: another installation on the
namespace must not stop the owner. A block in force remains until it is lifted; what was lifted, and why, is kept with
the other statements of people (`consents`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NoReturn

from dredge.errors import BlockedError, ConflictError, FormatError, WitnessError
from dredge.gc.run import Run
from dredge.gc.witness.consents import LIFT_BLOCK, Consent, record_consent
from dredge.gc.witness.ownership import Site, read_owner
from dredge.runs.conditional import read_tagged, replace_tagged
from dredge.runs.payload import from_file, to_json
from dredge.storage import ObjectReader, ObjectWriter

BLOCK = "block.json"
_FORMAT = 1
_LIFTING = "It ends when a person gives `dredge gc lift-block {repository} --reason …`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A refusal that is in force until a person lifts it; a payload.

    Attributes:
        kind: of the refusal, such as `known_commits`.
        message: what the witness saw.
        run_id: the run that was refused.
        repository: name in lakeFS.
        server: URL of the server that the run asked.
        at: by the store's clock.
        facts: figures and names for programs, JSON.
        lifted: the person's statement; None while in force.
        format: of this record.
    """

    kind: str
    message: str
    run_id: str
    repository: str
    server: str
    at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
    lifted: Consent | None = None
    format: int = _FORMAT


def refuse(run: Run, kind: str, message: str, facts: Mapping[str, Any] | None = None) -> NoReturn:
    """Refuse a mark because of a witness, and leave a block unless another server owns the namespace.

    Args:
        run: this run.
        kind: of the refusal; stable.
        message: what was seen, the run that left it, likely causes and what to do in each.
        facts: figures and names for programs, JSON.

    Raises:
        WitnessError: always.
    """
    refuse_site(Site.of_run(run), kind, message, facts)


def refuse_site(site: Site, kind: str, message: str, facts: Mapping[str, Any] | None = None) -> NoReturn:
    """As `refuse`, for a run that is no collection, such as a purge."""
    environment = site.client.environment()
    owner = read_owner(site.state)
    if owner is not None and not owner.includes(environment):
        raise WitnessError(f"{message} Nothing was deleted.")
    block = Block(
        kind=kind,
        message=message,
        run_id=site.run_id,
        repository=site.repository,
        server=environment.url,
        at=site.now(),
        facts=dict(facts or {}),
    )
    _leave(site.state, block)
    lifting = _LIFTING.format(repository=site.repository)
    raise WitnessError(
        f"{message} Nothing was deleted. The namespace is blocked: no run deletes there. {lifting}"
    )


def read_block(state: ObjectReader) -> Block | None:
    """Read the block in force; None without one.

    Raises:
        FormatError: the record is damaged, or a newer version wrote it.
    """
    return _in_force(_read_tagged(state)[1])


def refuse_blocked(state: ObjectReader) -> None:
    """Refuse to delete in a namespace with a block.

    Args:
        state: on the folder of lease and index.

    Raises:
        BlockedError: there is one.
        FormatError: it is damaged.
    """
    found = read_block(state)
    if found is not None:
        raise BlockedError(f"{describe(found)} Nothing (more) was deleted.")


def describe(block: Block) -> str:
    """Describe a block in force, with the way to lift it."""
    return (
        f"run {block.run_id} blocked the namespace of {block.repository} at {block.at:%Y-%m-%d %H:%M} UTC"
        f" ({block.kind}): {block.message} {_LIFTING.format(repository=block.repository)}"
    )


def lift(state: ObjectWriter, repository: str, why: str, who: str | None = None) -> Block | None:
    """End the block in force, and keep it with the reason.

    Args:
        state: on the folder of lease and index; the caller holds the lease.
        repository: name in lakeFS.
        why: the reason, in the person's words.
        who: None is the login name of this process.

    Returns:
        The block that was lifted; None if there was none.

    Raises:
        ConfigError: there is no reason.
        ConflictError: another process changed the block at the same moment.
    """
    etag, found = _read_tagged(state)
    if found is None or found.lifted is not None:
        return None
    consent = record_consent(state, LIFT_BLOCK, repository, why, to_json(found), who)
    lifted = replace(found, lifted=consent)
    if not replace_tagged(state, BLOCK, _encode(lifted), etag) and read_block(state) is not None:
        raise ConflictError(f"{state.uri}/{BLOCK} was changed at the same moment. Give the command again.")
    return lifted


def _leave(state: ObjectWriter, block: Block) -> None:
    etag, found = _read_tagged(state)
    if _in_force(found) is not None:
        return  # its cause has to be found before this one's
    if not replace_tagged(state, BLOCK, _encode(block), etag) and read_block(state) is None:
        raise ConflictError(f"{state.uri}/{BLOCK} was changed at the same moment. Nothing was deleted.")


def _in_force(block: Block | None) -> Block | None:
    return block if block is not None and block.lifted is None else None


def _encode(block: Block) -> bytes:
    return json.dumps(to_json(block), indent=1, sort_keys=True).encode()


def _read_tagged(state: ObjectReader) -> tuple[str | None, Block | None]:
    tagged = read_tagged(state, BLOCK)
    if tagged is None:
        return None, None
    try:
        found = from_file(Block, json.loads(tagged[1]))
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"{state.uri}/{BLOCK} is damaged ({error}), so nothing may be deleted. Look why the namespace was blocked"
            " (reports of the last runs), then remove the file."
        ) from None
    if found.format > _FORMAT:
        raise FormatError(
            f"{state.uri}/{BLOCK} is of a newer version of Dredge: use that one. Nothing was deleted."
        )
    return tagged[0], found
