"""Object store access from connections, and the environment of a step."""

import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from dredge.errors import ConfigError
from dredge.storage import StorageOptions
from dredge.storage.options import AzureOptions
from tests.support.airflow import connections


def test_tasks_in_the_worker_see_the_stores_credentials_only_while_the_step_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "before")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    options = StorageOptions(region="inside", access_key_id="K", secret_access_key="hunter2")
    with tasks_environment(options):
        seen = StorageOptions.from_env()
    assert (seen.region, seen.access_key_id, seen.secret_access_key) == ("inside", "K", "hunter2")
    assert os.environ["AWS_REGION"] == "before"
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ


NO_AWS = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CA_BUNDLE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "STORAGE_EMULATOR_HOST",
)


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_AWS:
        monkeypatch.delenv(name, raising=False)


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
    assert "s3secret" not in repr(options)


@pytest.mark.parametrize(
    "extra",
    [
        {"role_arn": "arn:aws:iam::1:role/r", "assume_role_method": "assume_role_with_saml"},
        {"session_kwargs": {"profile_name": "p"}},
        {"assume_role_method": "assume_role"},
        {"aws_access_key_id": "K", "aws_secret_access_key": "s"},
    ],
)
def test_an_aws_connection_may_say_how_keys_are_come_by(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]
) -> None:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook

    keys = SimpleNamespace(access_key="K", secret_key="s", token="t")
    monkeypatch.setattr(AwsGenericHook, "get_credentials", lambda _: keys)
    with connections(aws_default={"conn_type": "aws", "extra": extra | {"region_name": "r"}}):
        options = storage_options("aws_default")
    assert (options.access_key_id, options.secret_access_key, options.session_token) == ("K", "s", "t")


def test_a_role_is_taken_on_wherever_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys live an hour; those of the connection, by which it is asked for again, do not change."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "WORKER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "worker's")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "worker's token")
    extra = {
        "role_arn": "arn:aws:iam::1:role/r",
        "assume_role_kwargs": {"ExternalId": "x"},
        "service_config": {"sts": {"endpoint_url": "http://sts:1"}},
        "config_kwargs": {"use_dualstack_endpoint": True},
    }
    with connections(
        aws_default={"conn_type": "aws", "login": "K", "password": "s", "extra": extra},
        other={"conn_type": "aws", "extra": {"profile_name": "p"}},
    ):
        options, other = storage_options("aws_default"), storage_options("other")
    assert json.loads(options.role or "") == {
        "RoleArn": "arn:aws:iam::1:role/r",
        "RoleSessionName": "Airflow_aws_default",
        "ExternalId": "x",
    }
    assert (options.access_key_id, options.session_token) == ("K", None)
    assert (options.sts_endpoint, json.loads(options.config or "")) == (
        "http://sts:1",
        {"use_dualstack_endpoint": True},
    )
    assert (other.profile, other.access_key_id, other.session_token) == ("p", None, None)


def test_a_default_connection_of_another_type_is_left_alone() -> None:
    other = {"conn_type": "aws", "login": "K", "password": "s", "extra": {"project": "p"}}
    with connections(aws_default=None, google_cloud_default=other, wasb_default=other):
        options = storage_options("aws_default")
    assert (options.gcs.project, options.azure, options.access_key_id) == (None, AzureOptions(), None)


KEY = {"type": "service_account", "private_key": "SECRETKEY"}


@pytest.mark.parametrize("prefix", ["", "extra__google_cloud_platform__"])
@pytest.mark.parametrize("named", ["aws_default", "google_cloud_default"])
def test_a_google_connection_gives_key_and_project(named: str, prefix: str) -> None:
    extra = {f"{prefix}keyfile_dict": json.dumps(KEY), f"{prefix}project": "p"}
    google = {"conn_type": "google_cloud_platform", "extra": extra}
    given: dict[str, Any] = {"aws_default": None, "google_cloud_default": None, named: google}
    with connections(**given):
        options = storage_options("aws_default")
    assert json.loads(options.gcs.credentials_json or "") == KEY
    assert options.gcs.project == "p"
    assert "SECRETKEY" not in repr(options)


@pytest.mark.parametrize("extra", [{"impersonation_chain": "other@p"}, {"keyfile_dict": "SECRETKEY"}])
def test_an_identity_that_is_not_supported_is_refused_where_it_is_asked_for(extra: dict[str, str]) -> None:
    """Taking the machine's identity instead would work with other rights than were meant."""
    google = {"conn_type": "google_cloud_platform", "extra": extra}
    with connections(aws_default=google, google_cloud_default=None), pytest.raises(ConfigError) as raised:
        storage_options("aws_default")
    assert "SECRETKEY" not in str(raised.value)
    with connections(aws_default=None, google_cloud_default=google):
        assert storage_options("aws_default").gcs.credentials_json is None


@pytest.mark.parametrize("named", ["aws_default", "wasb_default"])
def test_an_azure_connection_gives_account_and_key(named: str) -> None:
    given: dict[str, Any] = {"aws_default": None, "wasb_default": None}
    with connections(**given | {named: {"conn_type": "wasb", "login": "acct", "password": "K=="}}):
        options = storage_options("aws_default")
    assert options.azure == AzureOptions("acct", "K==")
    assert StorageOptions.from_env(options.to_env()).azure == options.azure


def test_a_token_of_one_account_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "own")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=own")
    for host, token in (("other", None), ("https://other.blob.core.windows.net", None), ("own", "sig=own")):
        azure = {"conn_type": "wasb", "host": host, "extra": {"managed_identity_client_id": "m"}}
        with connections(aws_default=None, wasb_default=azure):
            assert storage_options("aws_default").azure.sas_token == token


def test_the_connection_says_where_the_bucket_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ADDRESSING_STYLE", "path")
    extra = {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}
    with connections(aws_default={"conn_type": "aws", "extra": extra}, other={"conn_type": "aws"}):
        assert storage_options("aws_default").path_style is None
        assert storage_options("other").path_style is True
