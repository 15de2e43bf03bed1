"""Settings are checked before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from dredge.errors import ConfigError
from lakefs_embedded.catalog import Settings
from lakefs_embedded.server import Credentials, ServerSettings
from lakefs_embedded.server.settings import split_listen


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        (":0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_a_listen_address_is_host_and_port(listen: str, expected: tuple[str, int]) -> None:
    assert split_listen(listen) == expected


@pytest.mark.parametrize(
    "listen", ["", "localhost", "localhost:", "localhost:http", "localhost:65536", "a:-1"]
)
def test_a_listen_address_without_a_port_is_refused(listen: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        split_listen(listen)


@pytest.mark.parametrize("base", [None, "", "relative/folder", "/", "//"])
def test_the_local_store_needs_a_folder_of_its_own(base: str | None) -> None:
    with pytest.raises(ConfigError, match="absolute folder"):
        ServerSettings(local_base=base)


def test_an_unknown_defect_is_named_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"emtpy_last_page.*empty_last_page"):
        ServerSettings(local_base="/lake", defects=frozenset({"emtpy_last_page"}))


def test_the_catalog_gets_the_servers_signing_key_and_only_its_own_defects() -> None:
    settings = ServerSettings(
        local_base="/lake",
        signing_key="k1",
        catalog=Settings(signing_key="k0", slice_names_max=7),
        defects=frozenset({"empty_last_page", "prepare_commits_404"}),
    )
    assert settings.catalog_settings.signing_key == "k1"
    assert settings.catalog_settings.slice_names_max == 7
    assert settings.catalog_settings.defects == {"empty_last_page"}


def test_secrets_do_not_show_in_reprs(tmp_path: Path) -> None:
    settings = ServerSettings.for_folder(tmp_path)
    assert settings.credentials is not None
    assert settings.credentials.secret_access_key not in repr(settings)
    assert settings.signing_key not in repr(settings)


@pytest.mark.parametrize("parts", [("", "s", "u"), ("k", "", "u"), ("k", "s", "")])
def test_empty_credentials_are_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigError):
        Credentials(*parts)
