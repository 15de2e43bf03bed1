"""A connection of type lakefs, turned into what Dredge and its jobs understand."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from dredge.errors import ConfigError
from dredge.lakefs import LakeFSClient
from tests.support.airflow import FILTERS, connections
from tests.support.airflow_server import BrokenVault, use_vault

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

LAKEFS = {"conn_type": "lakefs", "host": "http://lakefs:8000", "login": "AKIA", "password": "hunter2"}


@pytest.mark.parametrize(
    ("changes", "endpoint"),
    [
        ({}, "http://lakefs:8000"),
        ({"host": "https://lakefs.example.com/api/v1"}, "https://lakefs.example.com/api/v1"),
        ({"host": "https://lakefs.example.com/"}, "https://lakefs.example.com"),
        ({"host": "lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "lakefs.example.com", "schema": "https"}, "https://lakefs.example.com"),
        ({"host": "http://lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "http://lakefs:8000", "port": 9000}, "http://lakefs:8000"),
    ],
)
def test_host_may_be_given_in_many_ways(changes: dict[str, Any], endpoint: str) -> None:
    with connections(lakefs_default=LAKEFS | changes):
        env = LakeFSHook().env()
    assert env["LAKECTL_SERVER_ENDPOINT_URL"] == endpoint
    assert env["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"] == "AKIA"
    assert env["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] == "hunter2"


def test_connection_as_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKEFS_DEFAULT", "lakefs://AKIA:hunter%2F2@lakefs:8000")
    env = LakeFSHook().env()
    assert env["LAKECTL_SERVER_ENDPOINT_URL"] == "http://lakefs:8000"
    assert env["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] == "hunter/2"


def test_missing_connection_says_what_to_set() -> None:
    with (
        connections(lakefs_other=None),
        pytest.raises(ConfigError, match=r"'lakefs_other' does not exist.*AIRFLOW_CONN_LAKEFS_OTHER"),
    ):
        LakeFSHook("lakefs_other").client  # noqa: B018


@pytest.mark.parametrize("missing", ["host", "login", "password"])
def test_incomplete_connection_is_refused(missing: str) -> None:
    with (
        connections(lakefs_default=LAKEFS | {missing: None}),
        pytest.raises(ConfigError, match="not complete"),
    ):
        LakeFSHook().client  # noqa: B018


def test_button_in_the_form_tells_the_trouble_and_no_secret() -> None:
    with connections(lakefs_default=LAKEFS | {"host": "http://127.0.0.1:9"}):
        works, text = LakeFSHook().test_connection()
    assert not works
    assert "hunter2" not in text


def test_button_in_the_form_tells_that_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LakeFSClient, "version", lambda _: "1.60")
    with connections(lakefs_default=LAKEFS):
        assert LakeFSHook().test_connection() == (True, "lakeFS 1.60 answers")


def test_a_connection_whose_form_tests_it_is_the_one_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has saved it yet, or another one has its name."""
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(LakeFSClient, "__init__", lambda _, *given: asked.append(given))
    monkeypatch.setattr(LakeFSClient, "version", lambda _: "1.60")
    use_vault(monkeypatch, BrokenVault)
    form = Connection(
        conn_id="other", conn_type="lakefs", host="http://new:8000", login="NEW", password="new"
    )
    with connections(other=LAKEFS):
        assert form.test_connection() == (True, "lakeFS 1.60 answers")
    assert asked == [("http://new:8000", "NEW", "new")]


def test_airflow_knows_the_connection_type_and_its_form() -> None:
    (entry,) = importlib.metadata.entry_points(group="apache_airflow_provider").select(
        module="airflow_dredge.operators.provider_info"
    )
    (kind,) = entry.load()()["connection-types"]
    assert kind["connection-type"] == LakeFSHook.conn_type
    assert kind["hook-class-name"] == "airflow_dredge.operators.hooks.lakefs.LakeFSHook"

    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    (form,) = [item for item in HookMetaService.hook_meta_data() if item.connection_type == "lakefs"]
    assert form.hook_class_name == "airflow_dredge.operators.hooks.lakefs.LakeFSHook"
    assert form.standard_fields is not None
    assert form.standard_fields.host is not None
    assert form.standard_fields.host.title == "Server URL"
    assert form.standard_fields.password is not None
    assert form.standard_fields.password.title == "Secret access key"
