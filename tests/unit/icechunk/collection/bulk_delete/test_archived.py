"""Garbage that lies in an archive, where it can be deleted but neither read nor copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.collection.config import IcechunkRestoreConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.collection.undo import restore
from dredge.icechunk.maintenance import open_state
from dredge.runs.clock import utc_now
from dredge.runs.tasks import LocalRunner
from dredge.storage.local.store import LocalReader
from dredge.storage.streamed_copy import StreamedCopier
from dredge.undo.pins import end_pin
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.test_optimized import grown


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    archived: list[str] = []

    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(self: object, key: str, *more: Any, **named: Any) -> Any:
            if key in archived:
                raise ConfigError(
                    f"{key}: InvalidObjectState the operation is not valid for its storage class"
                )
            return real(self, key, *more, **named)

        return maybe

    for owner, name in ((LocalReader, "get"), (StreamedCopier, "copy")):
        monkeypatch.setattr(owner, name, refusing(getattr(owner, name)))
    return archived.append


@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_what_cannot_be_copied_from_an_archive_stays_and_the_rest_of_the_garbage_goes(
    v1: Repo, kind: str, mode: str, archive: Callable[[str], None], tmp_path: Path
) -> None:
    grown(v1)
    left, before = v1.collected(tmp_path), objects(v1.folder)
    ice = min(before[kind] - left[kind])
    archive(f"{kind}/{ice}")
    report = collect(v1.config(mode=mode, undo="quarantine"))
    assert report["warnings"]
    found = objects(v1.folder)
    assert found[kind] == left[kind] | {ice}
    assert found["chunks"] >= left["chunks"]
    assert contents(v1.library, branch="main")[0] == 101
    collect(v1.config(undo="quarantine"))
    assert objects(v1.folder)["chunks"] == left["chunks"]


def test_what_was_copied_beside_an_archived_manifest_comes_back_and_goes_again(
    v1: Repo, archive: Callable[[str], None], tmp_path: Path
) -> None:
    grown(v1)
    left, before = v1.collected(tmp_path), objects(v1.folder)
    ice = min(before["manifests"] - left["manifests"])
    archive(f"manifests/{ice}")
    asked = {"storage": v1.uri, "run": collect(v1.config(undo="quarantine"))["run_id"], "all": True}
    done = restore(IcechunkRestoreConfig.from_params(asked), LocalRunner(), "a person")
    assert objects(v1.folder) == before
    with pytest.raises(ConfigError, match="InvalidObjectState"):
        collect(v1.config(undo="quarantine"))
    assert objects(v1.folder) == before
    end_pin(open_state(v1.uri), done.run_id, utc_now())
    collect(v1.config(undo="quarantine"))
    assert objects(v1.folder) == {**left, "manifests": left["manifests"] | {ice}}
    assert contents(v1.library, branch="main")[0] == 101
