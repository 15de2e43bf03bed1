"""What the last look saw named: a store that was put back from a backup is noticed by what it lacks.

Heads of branches are noted with the repository's partition. lakeFS never removes commit records, so a record that is
gone means an older or another database. Tokens are noted as digests. One that no record names any more, and that the
server has not queued for dropping, may have lost the record of its branch together with a part of the database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import WitnessError
from dredge.kv.rows import show
from dredge.trash.look import Look

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Noted:
    """What earlier looks saw named.

    Attributes:
        heads: commits at which branches were at the last look, by the partition of their repository.
        named: digests of the tokens that records named then.
        missed: digests of tokens that were named earlier, each with the time of the first look that did not see it
            named.
    """

    heads: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    missed: Mapping[str, datetime] = field(default_factory=dict)

    def missed_since(self, token: bytes) -> datetime | None:
        """Return since when a token is not named that an earlier look saw named; None for all others."""
        return self.missed.get(_digest(token))

    def after(self, look: Look, now: datetime, longest: timedelta) -> Noted:
        """Return what is noted after a look.

        Args:
            look: what was seen.
            now: time of the look.
            longest: how long a token that was named is remembered.
        """
        seen = look.references
        named = frozenset(map(_digest, {*seen.tokens, *look.unsure}))
        missed = {token: self.missed.get(token, now) for token in (self.named | self.missed.keys()) - named}
        lately = {token: since for token, since in missed.items() if now - since < longest}
        return Noted(look.heads, named, lately)

    def begun_anew(self) -> Noted:
        """Return the same without times: what was missed is missed from the next look on."""
        return Noted(self.heads, self.named | self.missed.keys())


def check_known(look: Look, location: str) -> None:
    """Demand that the store has the commit record of each branch head that was noted.

    Args:
        look: of the store, read with what was noted.
        location: the store, for the message.

    Raises:
        WitnessError: a record is gone.
    """
    if not look.lost_commits:
        return
    lost = [
        f"{show(partition)}: {', '.join(commit[:12] for commit in commits[:_SHOWN])}"
        for partition, commits in sorted(look.lost_commits.items())
    ]
    raise WitnessError(
        f"{location}: {sum(map(len, look.lost_commits.values())):,} commits that were heads of branches at the last"
        f" look have no record now ({_first(lost)}). lakeFS never removes one, so this database, or its table, was put"
        " back from a backup, or is another one. Nothing was judged and nothing removed. If it is the wrong database,"
        " correct the connection. If it was put back on purpose, start with an empty state folder: then everything"
        " waits anew."
    )


def _first(items: Iterable[str]) -> str:
    found = list(items)
    more = f"; {len(found) - _SHOWN:,} more repositories" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _digest(token: bytes) -> str:
    return hashlib.blake2b(token, digest_size=8).hexdigest()
