"""Credentials: secrets are encrypted and bound to their record."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError
from dredge.kv import open_store
from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.secrets import SecretBox
from tests.support.auth_directory import NOW, filled


def test_no_secret_is_stored_in_clear_and_none_opens_elsewhere() -> None:
    kv = open_store("memory://")
    found = filled(kv)
    found.credentials.add("user-a", "KEY-2", "hunter2-hunter2")
    assert all(b"hunter2" not in entry.value for entry in kv.scan(b"auth"))
    with pytest.raises(FormatError):
        Directory(kv, SecretBox("another key"), lambda: NOW).credentials.find("KEY-2")
    # a sealed secret put into another's record does not open there
    stolen = kv.get(b"auth", b"uCredentials/user-a/credentials/KEY-2")
    kv.set(b"auth", b"uCredentials/user-b/credentials/KEY-b", stolen)
    with pytest.raises(FormatError):
        found.credentials.find("KEY-b")
