"""Health, setup, login, configuration, through the clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import lakefs
import lakefs_sdk
import pytest
import urllib3
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from dredge.errors import UnavailableError
from lakefs_embedded.catalog import Settings
from lakefs_embedded.server import ServerSettings, ThreadedServer
from tests.support.lakefs_server import Clock, Lake, lakefs_server


def test_health_needs_no_credentials(lake: Lake) -> None:
    assert lake.http("GET", "/healthcheck", credentials=None).status == 204
    assert urllib3.request("GET", f"{lake.server.url}/_health").status == 200


def test_a_server_with_credentials_is_initialized_and_cannot_be_set_up_again(lake: Lake) -> None:
    assert lake.sdk.internal_api.get_setup_state().state == "initialized"
    with pytest.raises(lakefs_sdk.ApiException, match="already initialized") as refused:
        lake.sdk.internal_api.setup(lakefs_sdk.Setup(username="jane"))
    assert refused.value.status == 409


def test_a_token_ends_by_the_servers_clock(tmp_path: Path) -> None:
    clock = Clock()
    with lakefs_server(tmp_path, clock=clock, login_seconds=3600) as lake:
        pair = lakefs_sdk.LoginInformation(
            access_key_id=lake.server.access_key_id, secret_access_key=lake.server.secret_access_key
        )
        token = lake.sdk.auth_api.login(pair).token
        clock.advance(hours=2)
        late = LakeFSClient(lakefs_sdk.Configuration(host=lake.server.endpoint, access_token=token))
        with pytest.raises(lakefs_sdk.exceptions.UnauthorizedException):
            late.auth_api.get_current_user()


def test_every_answer_tells_the_date_by_the_servers_clock(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, clock=Clock(days=-40)) as lake:
        for path in ("/repositories", "/nowhere", "/healthcheck"):
            headers = lake.http("GET", path).headers
            assert len(headers.getlist("Date")) == 1
            told = parsedate_to_datetime(headers["Date"])
            assert abs(told - lake.clock()) < timedelta(seconds=30)


def test_the_configuration_tells_clients_to_send_bytes_through_the_server(lake: Lake) -> None:
    storage = lake.sdk.config_api.get_config().storage_config
    assert storage is not None
    assert (storage.blockstore_type, storage.pre_sign_support, storage.import_support) == (
        "local",
        False,
        False,
    )
    with pytest.deprecated_call():
        assert lake.sdk.internal_api.get_storage_config() == storage


def test_the_high_level_client_reads_version_and_storage(lake: Lake) -> None:
    assert lake.client.version == "1.84.0"
    config = lake.sdk.config_api.get_config().version_config
    assert config is not None
    assert config.version_context == "lakeFS"  # lakectl warns at every command about any other text
    assert lake.client.storage_config.pre_sign_support is False
    example = lake.client.storage_config.blockstore_namespace_example
    lakefs.Repository("as-shown", lake.client).create(storage_namespace=example)


def test_the_grace_period_is_the_link_expiry(tmp_path: Path) -> None:
    with lakefs_server(tmp_path) as lake:
        assert lake.sdk.internal_api.get_garbage_collection_config().grace_period == 86400
    hours = Settings(link_expiry=timedelta(hours=6))
    with lakefs_server(tmp_path, catalog=hours) as lake:
        assert lake.sdk.internal_api.get_garbage_collection_config().grace_period == 21600


def test_a_taken_port_is_an_error_before_anything_is_opened(lake: Lake, tmp_path: Path) -> None:
    listen = lake.server.url.removeprefix("http://")
    settings = ServerSettings(listen=listen, local_base=str(tmp_path), kv_url=f"sqlite://{tmp_path}/kv.db")
    with pytest.raises(UnavailableError, match="cannot listen"):
        ThreadedServer(settings).start()
    assert not (tmp_path / "kv.db").exists()


@contextmanager
def refused(status: int, words: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert words in str(json.loads(caught.value.body)["message"])


def test_a_login_gives_a_token_and_a_session_cookie(lake: Lake) -> None:
    pair = {
        "access_key_id": lake.server.access_key_id,
        "secret_access_key": lake.server.secret_access_key,
    }
    response = lake.http("POST", "/auth/login", json_body=pair, credentials=None)
    token = json.loads(response.data)["token"]
    cookie = response.headers["Set-Cookie"]
    assert f"internal_auth_session={token}" in cookie
    assert "HttpOnly" in cookie
    for headers in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"internal_auth_session={token}"}):
        answer = lake.http("GET", "/user", credentials=None, headers=headers)
        assert json.loads(answer.data)["user"]["id"] == "admin"
    sdk = LakeFSClient(Configuration(host=lake.server.endpoint, access_token=token))
    assert sdk.auth_api.get_current_user().user.friendly_name == "admin"
    with refused(401, "error authenticating request"):
        lake.sdk.auth_api.login(
            login_information=lakefs_sdk.LoginInformation(access_key_id="x", secret_access_key="y")
        )
