"""A server that starts on a store which another one has left."""

import stat
from pathlib import Path

import lakefs_sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration

from dredge.errors import ConfigError, FormatError
from lakefs_embedded.kv import open_store
from lakefs_embedded.server import DataFolder, ServerSettings, ThreadedServer


def test_users_of_a_data_folder_outlive_a_restart(tmp_path: Path) -> None:
    settings = ServerSettings.for_folder(tmp_path)
    with ThreadedServer(settings) as server:
        sdk = LakeFSClient(
            Configuration(
                host=server.endpoint, username=server.access_key_id, password=server.secret_access_key
            )
        )
        sdk.auth_api.create_user(user_creation=lakefs_sdk.UserCreation(id="bob"))
        made = sdk.auth_api.create_credentials("bob")
        sdk.auth_api.delete_group("Viewers")
    assert made.secret_access_key.encode() not in (tmp_path / "kv.db").read_bytes()
    with ThreadedServer(ServerSettings.for_folder(tmp_path)) as server:
        bob = LakeFSClient(
            Configuration(host=server.endpoint, username=made.access_key_id, password=made.secret_access_key)
        )
        assert bob.auth_api.get_current_user().user.id == "bob"
        # what was removed does not come back with a start
        assert not server.accounts.directory.groups.list(prefix="Viewers", amount=1).results


# A data folder keeps one key pair, for its owner only.


def test_a_new_folder_gets_a_key_pair_and_a_second_start_finds_it(tmp_path: Path) -> None:
    first = DataFolder.open(tmp_path / "lake")
    second = DataFolder.open(tmp_path / "lake")
    assert first.created
    assert not second.created
    assert second.credentials == first.credentials
    assert second.signing_key == first.signing_key


def test_the_key_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path)
    assert stat.S_IMODE(Path(folder.secrets_path).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["objects", "server.json"]


def test_the_key_value_store_of_a_folder_with_odd_characters_opens(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path / "my lake %20 #1")
    with open_store(folder.kv_url) as store:
        store.set(b"p", b"k", b"v")
    assert (tmp_path / "my lake %20 #1" / "kv.db").exists()


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"access_key_id": "a"}'])
def test_a_damaged_key_file_is_named_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    with pytest.raises(FormatError, match=r"server\.json"):
        DataFolder.open(tmp_path)
    assert (tmp_path / "server.json").read_text() == content


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file"):
        DataFolder.open(tmp_path / "file")
