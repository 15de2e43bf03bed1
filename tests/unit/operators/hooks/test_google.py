"""What a connection of Google leaves to the environment, and what of it goes into no log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_dredge.operators.hooks import google
from airflow_dredge.operators.hooks.google import google_options
from dredge.errors import ConfigError
from dredge.storage.options import GcsOptions

KEY = {"type": "service_account", "private_key": "SECRETKEY", "private_key_id": "ID", "refresh_token": 7}
TEXT = json.dumps(KEY)


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(google, "mask_secret", found.append)
    return found


@pytest.mark.parametrize(
    "extra", [{"keyfile_dict": KEY}, {"keyfile_dict": TEXT}, {"keyfile_dict": f" {TEXT}"}]
)
def test_a_key_may_be_an_object_or_its_text(extra: dict[str, Any], masked: list[Any]) -> None:
    found = google_options(extra, GcsOptions(credentials_file="/env.json"))
    assert json.loads(found.credentials_json or "") == KEY
    assert found.credentials_file is None
    assert masked == [found.credentials_json, "SECRETKEY", "ID"]


@pytest.mark.parametrize("text", ["SECRETKEY", '["SECRETKEY"]'])
def test_a_key_that_is_none_is_refused_and_shown_to_nobody(text: str, masked: list[Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        google_options({"keyfile_dict": text}, GcsOptions())
    assert "SECRETKEY" not in str(raised.value)
    assert masked == [text]
