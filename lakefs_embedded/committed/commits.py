"""Ids of commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from lakefs_embedded.committed.ident import Ident

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def commit_id(
    committer: str,
    message: str,
    metarange_id: str,
    creation_date: datetime,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> str:
    """Compute a commit's id, without version and generation, and with whole seconds of the date.

    Source: lakeFS pkg/graveler/graveler.go
    """
    parts = Ident().string("commit:v1").string(committer).string(message).string(metarange_id)
    parts.int64((creation_date - _EPOCH) // timedelta(seconds=1)).string_map(metadata)
    return parts.embedded(Ident().strings(parents)).hexdigest()
