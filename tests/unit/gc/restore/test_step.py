"""What a restore would bring back is read from the run's folder, as the store is reached."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.gc.restore import step
from dredge.gc.restore.config import RestoreConfig
from dredge.storage import StorageOptions
from tests.support.undo import small_world


def test_what_would_come_back_is_told_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _, gone = small_world("quarantine")
    run = world.plan()
    world.run(run)
    before, used, honest = world.lake.keys(""), [], step.open_swept  # type: ignore[attr-defined]

    def opening(uri: str, **more: Any) -> Any:
        used.append(more)
        return honest(uri, **more)

    monkeypatch.setattr(step, "open_swept", opening)
    options = StorageOptions()
    asked = RestoreConfig(repository="lake", run=run.plan.run_id, everything=True)
    found = step.foresee_restore(asked, run.plan.run_uri, options)
    assert (found.objects, set(found.examples), found.way) == (len(gone), gone, "quarantine")
    assert [more["options"] is options for more in used] == [True]
    assert world.lake.keys("") == before
