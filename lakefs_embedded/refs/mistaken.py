"""A real server's fault after a cherry-pick, for tests: the picked commit is not found by its full id.

A real server adds the new commit's metadata to its cached record of the picked commit, and resolves a full id to the
hash of the cached record. Until the cache entry expires (10 minutes, or a restart), the full id resolves to a missing
commit. A shorter prefix of the id, branches and the log still find the commit.

Source: lakeFS pkg/graveler/graveler.go (CherryPick), pkg/graveler/ref/manager.go (behaviour only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dredge.lakefs.files.records import Repository
from lakefs_embedded.refs.commits import expected_id
from lakefs_embedded.refs.records import Commit

CACHED_FOR = timedelta(minutes=10)


class MistakenIds:
    """Full commit ids with a wrong resolution; unless `enabled`, each id resolves to itself."""

    def __init__(self, clock: Callable[[], datetime], *, enabled: bool) -> None:
        self._clock = clock
        self._enabled = enabled
        self._mistaken: dict[tuple[bytes, str], tuple[str, datetime]] = {}

    def picked(self, repository: Repository, commit: Commit, added: Mapping[str, str]) -> None:
        """Spoil the id of a cherry-picked commit; `added` is the new commit's additional metadata."""
        if self._enabled:
            spoilt = replace(commit, metadata={**commit.metadata, **added})
            until = self._clock() + CACHED_FOR
            self._mistaken[repository.partition, commit.id] = expected_id(spoilt), until

    def resolve(self, repository: Repository, commit_id: str) -> str:
        """Resolve a full commit id, maybe wrongly."""
        mistaken, until = self._mistaken.get((repository.partition, commit_id), ("", None))
        return mistaken if until is not None and self._clock() < until else commit_id
