"""Whose credentials reach Google Cloud Storage, and where they never show."""

import json

import pytest

from dredge.errors import ConfigError
from dredge.storage import StorageOptions, open_reader, open_writer
from dredge.storage.gcs import wire
from dredge.storage.https import redact
from dredge.storage.options import CREDENTIALS_JSON, GcsOptions
from tests.support.gcs import GcsServer


@pytest.fixture(scope="module")
def key() -> str:
    """The content of a service account's key file, of a key made here."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    about = {
        "type": "service_account",
        "client_email": "dredge@p.iam.gserviceaccount.com",
        "private_key_id": "1",
    }
    return json.dumps({**about, "token_uri": "http://127.0.0.1:1/token", "private_key": made.decode()})


def test_a_key_that_is_told_is_not_mixed_with_a_machines_own(key: str) -> None:
    own = {
        CREDENTIALS_JSON: key,
        "GOOGLE_APPLICATION_CREDENTIALS": "/own.json",
        "STORAGE_EMULATOR_HOST": "own:1",
        "DREDGE_GCS_USER_PROJECT": "own",
    }
    told = GcsOptions(credentials_file="/told.json")
    assert GcsOptions.from_env(own | StorageOptions(gcs=told).to_env()) == told
    assert GcsOptions.from_env(own | StorageOptions().to_env()) == GcsOptions.from_env(own)


def test_a_key_shows_nowhere(key: str) -> None:
    options = StorageOptions(gcs=GcsOptions(credentials_json=key))
    assert "PRIVATE" not in repr(options)
    assert "PRIVATE" not in repr(open_writer("gs://b/p", options))
    assert CREDENTIALS_JSON in options.to_env()
    for url in ("https://user:pw@h", "h:1", "ftp://h"):
        with pytest.raises(ConfigError) as raised:
            GcsOptions(endpoint_url=url)
        assert "pw" not in str(raised.value)
    assert "abc" not in redact("PUT https://h/upload?upload_id=abc&x=1")


@pytest.mark.parametrize("text", ["", "not json", "[1]", '"PRIVATE"'])
def test_what_is_no_key_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        GcsOptions(credentials_json=text)
    assert not text or text not in str(raised.value)


@pytest.mark.parametrize("about", [{"type": "service_account"}, {"type": "nothing"}, {}])
def test_a_broken_key_is_a_config_error_that_quotes_nothing(about: dict[str, str]) -> None:
    options = GcsOptions(credentials_json=json.dumps({**about, "private_key": "SECRET"}))
    with pytest.raises(ConfigError, match="google_cloud_platform") as raised:
        wire.credentials(options)
    assert "SECRET" not in str(raised.value)


def test_a_token_that_cannot_be_had_is_told_without_the_key(key: str) -> None:
    from dredge.errors import UnavailableError

    with GcsServer() as server:
        about = GcsOptions(credentials_json=key, endpoint_url=server.url, retry_seconds=0)
        options = StorageOptions(gcs=about)
        with pytest.raises((ConfigError, UnavailableError)) as raised:
            open_reader("gs://b", options).get("a")
        assert server.requests == []
    assert "PRIVATE" not in str(raised.value)
