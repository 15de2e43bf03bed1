"""Settings are checked before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from dredge.errors import ConfigError
from lakefs_embedded.server import Credentials, ServerSettings
from lakefs_embedded.server.settings import split_listen


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


def test_secrets_do_not_show_in_reprs(tmp_path: Path) -> None:
    settings = ServerSettings.for_folder(tmp_path)
    assert settings.credentials is not None
    assert settings.credentials.secret_access_key not in repr(settings)
    assert settings.signing_key not in repr(settings)


@pytest.mark.parametrize("parts", [("", "s", "u"), ("k", "", "u"), ("k", "s", "")])
def test_empty_credentials_are_refused(parts: tuple[str, str, str]) -> None:
    with pytest.raises(ConfigError):
        Credentials(*parts)
