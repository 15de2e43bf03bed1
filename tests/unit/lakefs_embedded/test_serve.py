"""The words of `dredge serve`; the process itself is a system test."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from dredge.errors import ConfigError
from lakefs_embedded.serve import _words, command

FACTS: dict[str, object] = {
    "url": "http://127.0.0.1:8000",
    "endpoint": "http://127.0.0.1:8000/api/v1",
    "access_key_id": "KEY",
    "storage_namespace": "local:///lake/objects/<repository>",
    "pid": 1,
}


def test_a_new_secret_is_shown_as_something_to_paste() -> None:
    text = _words(FACTS | {"secret_access_key": "SECRET"})
    assert "export LAKECTL_SERVER_ENDPOINT_URL=http://127.0.0.1:8000/api/v1" in text
    assert "export LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=SECRET" in text


def test_a_kept_secret_is_only_pointed_at() -> None:
    text = _words(FACTS | {"secrets_file": "/lake/server.json"})
    assert "the secret is in /lake/server.json" in text


def test_a_given_secret_is_not_mentioned() -> None:
    assert "the secret you gave" in _words(FACTS)


def test_without_the_libraries_of_the_server_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lakefs_embedded.server", None)
    error = CliRunner().invoke(command, ["--data", "lake"]).exception
    assert isinstance(error, ConfigError)
    assert "extra `server`" in str(error)
