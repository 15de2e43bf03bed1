"""Only namespaces of the server's own block store are opened."""

from pathlib import Path

import pytest

from lakefs_embedded.errors import GravelerError
from lakefs_embedded.server import ServerSettings
from lakefs_embedded.server.namespaces import Namespaces


@pytest.fixture
def local(tmp_path: Path) -> Namespaces:
    (tmp_path / "base").mkdir()
    return Namespaces(ServerSettings(local_base=str(tmp_path / "base")))


def test_a_plain_name_is_a_folder_below_the_base(local: Namespaces, tmp_path: Path) -> None:
    assert local.open("local://lake/sub").uri == f"file://{tmp_path}/base/lake/sub"
    assert local.open_source("local://lake/sub/").uri == f"file://{tmp_path}/base/lake/sub"


@pytest.mark.parametrize("name", ["lake", "lake/", "lake/data/x"])
def test_a_folder_is_not_shared_by_way_of_another_spelling(
    local: Namespaces, tmp_path: Path, name: str
) -> None:
    whole = f"local://{tmp_path}/base/lake"
    for new, other in ((f"local://{name}", whole), (whole, f"local://{name}")):
        with pytest.raises(GravelerError):
            local.check_unshared(new, [other])
    local.check_unshared(f"local://{name}", [f"{whole}2", "local://lake2", f"local://{tmp_path}/base/lak"])


@pytest.mark.parametrize(
    "uri",
    [
        "file://{base}",
        "file://{base}/",
        "file://{base}2/lake",
        "file://{base}/../lake",
        "file://{base}/a/../../lake",
        "file://{base}/./lake",
        "file://{base}//lake",
        "file://{base}/%2e%2e/lake",
        "file://{base}/lake?x",
        "file://{base}/lake#x",
        "file:{base}/lake",
        "{base}/lake",
        "local://../lake",
        "local://lake/../../x",
        "local://lake//x",
        "local://lake?x",
        "local://",
        "file://lake",
        "local://{base}2/lake",
        "local://{base}/../lake",
        "s3://bucket/lake",
        "mem://lake",
        "",
    ],
)
def test_any_other_place_is_refused_and_not_made(local: Namespaces, tmp_path: Path, uri: str) -> None:
    base = tmp_path / "base"
    with pytest.raises(GravelerError, match="invalid namespace") as refused:
        local.open(uri.format(base=base))
    assert refused.value.status == 400
    assert list(base.iterdir()) == []


def test_a_link_out_of_the_base_is_refused(local: Namespaces, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "base" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(GravelerError, match="invalid namespace"):
        local.open(f"file://{tmp_path}/base/link/lake")
