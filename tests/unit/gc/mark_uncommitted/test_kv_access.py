"""How the key-value store is named to tasks."""

from __future__ import annotations

import io

import pytest

from dredge.errors import ConfigError
from dredge.gc.mark_uncommitted import kv_store
from dredge.gc.mark_uncommitted.kv_store import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, URL, KVAccess
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


@pytest.mark.parametrize("session", [None, "token"])
def test_keys_go_to_other_processes_with_a_session_where_they_have_one(session: str | None) -> None:
    access = KVAccess("dynamodb://t", AwsKeys("id", "key", session))
    env = access.to_env()
    assert (SESSION_TOKEN in env) is (session is not None)
    assert KVAccess.from_env(env) == access
    assert KVAccess.from_env(env | {SESSION_TOKEN: session or ""}) == access


@pytest.mark.parametrize("missing", [ACCESS_KEY, SECRET_KEY])
def test_half_a_key_is_none(missing: str) -> None:
    env = KVAccess("dynamodb://t", AwsKeys("id", "key")).to_env()
    assert KVAccess.from_env({name: value for name, value in env.items() if name != missing}).keys is None
    assert KVAccess("dynamodb://t").to_env() == {URL: "dynamodb://t"}


def test_a_task_reads_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (URL, ACCESS_KEY, SECRET_KEY, SESSION_TOKEN):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=URL):
        KVAccess.from_env()
    monkeypatch.setenv(URL, "sqlite:///x.db")
    assert KVAccess.from_env() == KVAccess("sqlite:///x.db")


def test_the_store_is_opened_with_its_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def open_row_reader(url: str, keys: AwsKeys | None = None) -> io.BytesIO:
        opened.append((url, keys))
        return io.BytesIO()

    monkeypatch.setattr(kv_store, "open_row_reader", open_row_reader)
    keys = AwsKeys("id", "key")
    with KVAccess("dynamodb://t", keys).open():
        pass
    assert opened == [("dynamodb://t", keys)]
