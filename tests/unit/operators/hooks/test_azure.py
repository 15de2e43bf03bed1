"""What a connection of Azure leaves to the environment, and what of it goes into no log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_dredge.operators.hooks import azure
from airflow_dredge.operators.hooks.azure import azure_options
from dredge.storage.options import AzureOptions

ENDPOINT = "https://acct.blob.core.windows.net"


def options(own: AzureOptions | None = None, extra: Any = None, **fields: Any) -> AzureOptions:
    connection = Connection(conn_id="c", conn_type="wasb", extra=json.dumps(extra or {}), **fields)
    return azure_options(connection, own or AzureOptions())


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"login": "acct", "extra": {"account_key": "K=="}}, AzureOptions("acct", "K==")),
        ({"login": "acct", "extra": {"shared_access_key": "K=="}}, AzureOptions("acct", "K==")),
        ({"host": "host", "login": "acct", "password": "K=="}, AzureOptions("acct", "K==")),
        (
            {"host": "http://localhost:10000/acct", "password": "K=="},
            AzureOptions("acct", "K==", None, "http://localhost:10000/acct"),
        ),
        (
            {"host": "acct.dfs.core.windows.net", "password": "K=="},
            AzureOptions("acct", "K==", None, ENDPOINT),
        ),
        (
            {"host": ENDPOINT, "extra": {"sas_token": "sv=1&sig=S"}},
            AzureOptions("acct", None, "sv=1&sig=S", ENDPOINT),
        ),
        (
            {"login": "acct", "extra": {"sas_token": "sv=1&sig=S", "workload_identity_tenant_id": ""}},
            AzureOptions("acct", None, "sv=1&sig=S"),
        ),
    ],
)
def test_fields_may_be_given_in_many_ways(fields: dict[str, Any], found: AzureOptions) -> None:
    assert options(**fields) == found


@pytest.mark.parametrize(
    ("fields", "secrets"),
    [
        ({"login": "acct", "password": "K=="}, ["K=="]),
        ({"login": "acct", "extra": {"sas_token": "sig=S"}}, ["sig=S"]),
        ({"host": ENDPOINT, "login": "app", "password": "word", "extra": {"tenant_id": "t"}}, ["word"]),
        ({"host": ENDPOINT}, []),
    ],
)
def test_secrets_are_kept_out_of_the_logs(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], secrets: list[str]
) -> None:
    masked: list[Any] = []
    monkeypatch.setattr(azure, "mask_secret", masked.append)
    options(**fields)
    assert masked == secrets
