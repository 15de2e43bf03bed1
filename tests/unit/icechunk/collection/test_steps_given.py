"""A collection works with what its caller gives it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.plan import CollectionPlan
from dredge.icechunk.collection.steps import collect, plan_collection
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from tests.support.icechunk_repo import Repo


def test_collection_has_the_stores_the_clock_and_the_workers_that_it_is_given(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def noted(config: CollectConfig, **how: Any) -> CollectionPlan:
        given.append(how)
        return plan_collection(config, **how)

    class Workers(LocalRunner):
        def run(self, name: str, *work: Any) -> list[Any]:
            given.append(name)
            return super().run(name, *work)

    def clock() -> datetime:
        return datetime.now(UTC)

    options = StorageOptions(delete_requests=3)
    monkeypatch.setattr(steps, "plan_collection", noted)
    collect(v1.config(dry_run=True), Workers(), options, clock)
    assert given[0] == {"options": options, "clock": clock}
    assert {"mark", "list_candidates"} <= {*given[1:]}
