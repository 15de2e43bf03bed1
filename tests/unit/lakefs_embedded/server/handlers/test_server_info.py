"""Health, setup, login, configuration, through the clients."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lakefs_sdk
import pytest
import urllib3
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from dredge.errors import UnavailableError
from lakefs_embedded.server import ServerSettings, ThreadedServer
from tests.support.lakefs_server import Lake


def test_health_needs_no_credentials(lake: Lake) -> None:
    assert lake.http("GET", "/healthcheck", credentials=None).status == 204
    assert urllib3.request("GET", f"{lake.server.url}/_health").status == 200


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
    pair = {"access_key_id": lake.server.access_key_id, "secret_access_key": lake.server.secret_access_key}
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
