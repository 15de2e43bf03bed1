"""The commits of the key-value store are read from the server's own store only, those that no ref leads to as well."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError
from dredge.gc.insight.base_run import all_commits
from dredge.gc.mark_uncommitted import KVAccess
from tests.support.gc import make_world
from tests.support.kv_views import store_of


@pytest.mark.parametrize(("repository", "namespace"), [("another", ""), ("lake", "memory://elsewhere/lake")])
def test_the_store_of_another_installation_is_refused(
    repository: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    store_of(world, monkeypatch)
    with pytest.raises(RefusedError):
        all_commits(KVAccess.from_env(), repository, namespace or world.lake.namespace)
