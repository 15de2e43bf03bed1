"""Connections, turned into what Dredge and its jobs understand."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from dredge.errors import ConfigError
from operators.hooks.lakefs import LakeFSHook
from operators.hooks.storage import storage_options
from tests.support.airflow import FILTERS, connections

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

LAKEFS = {"conn_type": "lakefs", "host": "http://lakefs:8000", "login": "AKIA", "password": "hunter2"}
NO_AWS = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_AWS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("changes", "endpoint"),
    [
        ({}, "http://lakefs:8000"),
        ({"host": "https://lakefs.example.com/api/v1"}, "https://lakefs.example.com/api/v1"),
        ({"host": "https://lakefs.example.com/"}, "https://lakefs.example.com"),
        ({"host": "lakefs", "port": 8000}, "http://lakefs:8000"),
        ({"host": "lakefs.example.com", "schema": "https"}, "https://lakefs.example.com"),
        ({"host": "http://lakefs", "port": 8000}, "http://lakefs:8000"),
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


def test_incomplete_connection_is_refused() -> None:
    with (
        connections(lakefs_default=LAKEFS | {"password": None}),
        pytest.raises(ConfigError, match="not complete"),
    ):
        LakeFSHook().client  # noqa: B018


def test_button_in_the_form_tells_the_trouble_and_no_secret() -> None:
    with connections(lakefs_default=LAKEFS | {"host": "http://127.0.0.1:9"}):
        works, text = LakeFSHook().test_connection()
    assert not works
    assert "hunter2" not in text


def test_airflow_knows_the_connection_type_and_its_form() -> None:
    (entry,) = importlib.metadata.entry_points(group="apache_airflow_provider").select(
        module="operators.provider_info"
    )
    (kind,) = entry.load()()["connection-types"]
    assert kind["connection-type"] == LakeFSHook.conn_type
    assert kind["hook-class-name"] == "operators.hooks.lakefs.LakeFSHook"

    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    (form,) = [item for item in HookMetaService.hook_meta_data() if item.connection_type == "lakefs"]
    assert form.hook_class_name == "operators.hooks.lakefs.LakeFSHook"
    assert form.standard_fields is not None
    assert form.standard_fields.host is not None
    assert form.standard_fields.host.title == "Server URL"
    assert form.standard_fields.password is not None
    assert form.standard_fields.password.title == "Secret access key"


def test_missing_aws_connection_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with connections(aws_default=None):
        options = storage_options("aws_default")
    assert (options.region, options.access_key_id, options.endpoint_url) == ("eu-west-1", None, None)


def test_no_aws_connection_id_leaves_the_environment() -> None:
    assert storage_options(None).access_key_id is None


def test_aws_connection_gives_keys_endpoint_and_region() -> None:
    aws = {
        "conn_type": "aws",
        "login": "S3KEY",
        "password": "s3secret",
        "extra": {"endpoint_url": "http://s3:9000", "region_name": "eu-central-1"},
    }
    with connections(aws_default=aws):
        options = storage_options("aws_default")
    assert options.access_key_id == "S3KEY"
    assert options.secret_access_key == "s3secret"
    assert (options.endpoint_url, options.region) == ("http://s3:9000", "eu-central-1")
    assert options.uses_path_style
    assert "s3secret" not in repr(options)


def test_endpoint_of_the_service_wins_over_the_general_one() -> None:
    extra = {"endpoint_url": "http://all:1", "service_config": {"s3": {"endpoint_url": "http://s3:2"}}}
    with connections(aws_default={"conn_type": "aws", "login": "K", "password": "s", "extra": extra}):
        assert storage_options("aws_default").endpoint_url == "http://s3:2"


def test_session_token_is_passed_on() -> None:
    extra = {"aws_session_token": "token", "region_name": "eu-west-1"}
    with connections(aws_default={"conn_type": "aws", "login": "K", "password": "s", "extra": extra}):
        assert storage_options("aws_default").session_token == "token"


def test_aws_connection_without_keys_leaves_them_to_the_machine() -> None:
    with connections(aws_default={"conn_type": "aws", "extra": {"region_name": "eu-north-1"}}):
        options = storage_options("aws_default")
    assert (options.region, options.access_key_id) == ("eu-north-1", None)
