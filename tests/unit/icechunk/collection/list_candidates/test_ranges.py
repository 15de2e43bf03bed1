"""Ranges tile a folder exactly."""

from __future__ import annotations

import pytest

from dredge.icechunk.collection.steps import collect
from tests.support.icechunk_repo import Repo, split_local_folders


def test_names_equal_to_a_bound_are_listed_by_exactly_one_range(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0", "A", "AG", "AG0", "ZG", "a", "_"):
        (repo.folder / "chunks" / name).write_bytes(b"")
    split_local_folders(monkeypatch)
    report = collect(repo.config(dry_run=True))
    assert report["kinds"]["chunks"]["foreign"] == 7
