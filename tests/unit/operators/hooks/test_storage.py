"""How a connection says where an object store is and who may enter."""

from __future__ import annotations

import pytest

from airflow_dredge.operators.hooks.storage import storage_options
from tests.support.airflow import FILTERS, connections

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

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
