"""A real server's fault after a cherry-pick, which tests switch on: the picked commit cannot be found by its full id.

A real server adds the new commit's metadata to its cached record of the picked commit, and resolves a full id to the
hash of what it has cached. Until the cache forgets (10 minutes, or a restart), the full id means a commit that does
not exist. A shorter prefix of the id, branches and the log still find the commit.

Source: lakeFS pkg/graveler/graveler.go (CherryPick), pkg/graveler/ref/manager.go (behaviour only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dredge.lakefs.files.records import Commit, Repository
from lakefs_embedded.refs.commits import expected_id

CACHED_FOR = timedelta(minutes=10)


class MistakenIds:
    """Full commit ids that are resolved to other ids.

    Args:
        clock: current time, aware UTC.
        enabled: False resolves every id to itself.
    """

    def __init__(self, clock: Callable[[], datetime], *, enabled: bool) -> None:
        self._clock = clock
        self._enabled = enabled
        self._mistaken: dict[tuple[bytes, str], tuple[str, datetime]] = {}

    def picked(self, repository: Repository, commit: Commit, added: Mapping[str, str]) -> None:
        """Spoil the id of a commit that has been cherry-picked.

        Args:
            added: metadata that the new commit has beyond that of the picked one.
        """
        if self._enabled:
            spoilt = replace(commit, metadata={**commit.metadata, **added})
            until = self._clock() + CACHED_FOR
            self._mistaken[repository.partition, commit.id] = expected_id(spoilt), until

    def resolve(self, repository: Repository, commit_id: str) -> str:
        """Return the id that a full commit id is taken for."""
        mistaken, until = self._mistaken.get((repository.partition, commit_id), ("", None))
        return mistaken if until is not None and self._clock() < until else commit_id
