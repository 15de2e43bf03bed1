"""How the key-value store is named to tasks."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError
from dredge.gc.mark_uncommitted.kv_access import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, URL, KVAccess
from dredge.kv.dynamodb import AwsKeys


def test_the_store_goes_to_other_processes_by_environment_and_never_shows() -> None:
    access = KVAccess("postgresql://u:secret@h/db", AwsKeys("id", "key", "token"))
    env = access.to_env()
    assert env == {
        URL: "postgresql://u:secret@h/db",
        ACCESS_KEY: "id",
        SECRET_KEY: "key",
        SESSION_TOKEN: "token",
    }
    assert KVAccess.from_env(env) == access
    assert KVAccess.from_env({URL: "sqlite:///x.db"}) == KVAccess("sqlite:///x.db")
    assert "secret" not in repr(access)
    assert "key" not in repr(access).replace("keys", "")


def test_without_its_variable_the_store_cannot_be_opened() -> None:
    with pytest.raises(ConfigError, match=URL):
        KVAccess.from_env({})
