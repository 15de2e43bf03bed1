"""The committer's flow beside others who commit, write, reset and delete."""

from __future__ import annotations

import pytest

from lakefs_embedded.errors import NoChangesError
from tests.support.lakes import make_lake


def test_each_refused_commit_leaves_one_sealed_token() -> None:
    lake = make_lake()
    for expected in (1, 2):
        with pytest.raises(NoChangesError):
            lake.commit()
        assert len(lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens) == expected
    lake.upload("a")
    lake.commit()
    assert lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens == ()
