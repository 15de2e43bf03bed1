"""Choice of many repositories."""

from pathlib import Path

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.many import ManyConfig, choose_repositories
from tests.support.icechunk import local_storage, quiet


def empty(folder: Path) -> str:
    quiet().Repository.create(local_storage(folder), spec_version=1)
    return f"file://{folder}"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    for name in ("a", "b", "scratch"):
        empty(folder / name)
    (folder / "notes").mkdir()
    (folder / "notes" / "readme").write_text("no repository")
    return folder


def chosen(lake: Path, named: tuple[str, ...] = (), **asked: str) -> tuple[list[str], dict[str, str]]:
    return choose_repositories(ManyConfig.from_params(asked), named)


def test_folder_stands_for_the_repositories_in_it_but_for_those_left_out(lake: Path) -> None:
    found, missing = chosen(lake, storages=f"file://{lake}/*", exclude="*/scratch")
    assert (found, missing) == ([f"file://{lake}/a", f"file://{lake}/b"], {})


def test_a_place_is_meant_once_and_left_out_however_it_is_spelled(lake: Path) -> None:
    uri = f"file://{lake}"
    other = uri.replace("file:", "FILE:")
    assert chosen(lake, storages=f"{uri}/a {other}/a")[0] == [f"{uri}/a"]
    assert chosen(lake, storages=f"{uri}/*", exclude=f"{other}/a/ {other}/s*")[0] == [f"{uri}/b"]


@pytest.mark.parametrize(
    "spelled", ["file://{}//a", "file://{}/./a", "{}/a", "local://{}/a", "file://{}/link"]
)
def test_a_local_folder_is_left_out_however_its_path_is_spelled(lake: Path, spelled: str) -> None:
    (lake / "link").symlink_to(lake / "a")
    found, _ = chosen(lake, storages=f"file://{lake}/a file://{lake}/b", exclude=spelled.format(lake))
    assert found == [f"file://{lake}/b"]


@pytest.mark.parametrize("word", ["a", "scratch*", "lake/a", "s3:/lake/a"])
def test_a_word_that_leaves_nothing_out_is_refused(lake: Path, word: str) -> None:
    with pytest.raises(ConfigError, match="exclude"):
        chosen(lake, storages=f"file://{lake}/*", exclude=f"*/b {word}")


def test_those_with_settings_of_their_own_are_meant_when_nothing_else_is(lake: Path) -> None:
    named = (f"file://{lake}/b",)
    assert chosen(lake, named)[0] == list(named)
    assert chosen(lake, named, storages=f"file://{lake}/a")[0] == [f"file://{lake}/a"]
    assert chosen(lake) == ([], {})
