"""Branch heads and tokens of the last look; by the rows it lacks, a database restored from a backup is detected.

lakeFS never removes commit records, so a missing one means an older or another database. A token without a reference
now, and without a place in the server's drop queue, may have lost its branch record together with a part of the
database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import WitnessError
from dredge.kv.rows import show
from dredge.trash.look import Look

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Noted:
    """References of earlier looks.

    Attributes:
        heads: branch heads of the last look, by the partition of their repository.
        named: digests of the tokens referenced then.
        missed: digests of tokens referenced earlier, each with the time of the first look without the reference.
    """

    heads: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    missed: Mapping[str, datetime] = field(default_factory=dict)

    def missed_since(self, token: bytes) -> datetime | None:
        """Time since when a token referenced earlier has no reference; None for others."""
        return self.missed.get(_digest(token))

    def after(self, look: Look, now: datetime, longest: timedelta) -> Noted:
        """The notes after a look; `longest` is the time to remember a token."""
        seen = look.references
        named = frozenset(map(_digest, {*seen.tokens, *look.unsure}))
        missed = {token: self.missed.get(token, now) for token in (self.named | self.missed.keys()) - named}
        lately = {token: since for token, since in missed.items() if now - since < longest}
        return Noted(look.heads, named, lately)

    def begun_anew(self) -> Noted:
        """The same without times: missed tokens are missed from the next look on."""
        return Noted(self.heads, self.named | self.missed.keys())


def check_known(look: Look, location: str) -> None:
    """Refuse a store without the commit record of a noted branch head."""
    if not look.lost_commits:
        return
    lost = [
        f"{show(partition)}: {', '.join(commit[:12] for commit in commits[:_SHOWN])}"
        for partition, commits in sorted(look.lost_commits.items())
    ]
    if len(lost) > _SHOWN:
        lost[_SHOWN:] = [f"{len(lost) - _SHOWN:,} more repositories"]
    raise WitnessError(
        f"{location}: {sum(map(len, look.lost_commits.values())):,} branch heads of the last look have no commit record"
        f" now ({'; '.join(lost)}). lakeFS never removes one, so this database is another one, or was restored from a"
        " backup. Nothing was removed. For the wrong database, correct the connection. After a restore on purpose,"
        " start with an empty state folder: all waits begin again."
    )


def _digest(token: bytes) -> str:
    return hashlib.blake2b(token, digest_size=8).hexdigest()
