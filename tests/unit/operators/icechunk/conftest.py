import shutil
from pathlib import Path

import pytest

from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import build, local_storage
from tests.support.icechunk_operators import OLD, Dated
from tests.support.icechunk_repo import Repo, expired_sample


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, dict[str, str]]]:
    folders = {spec: tmp_path_factory.mktemp("dated") / "repo" for spec in (1, 2)}
    return {
        spec: (folder, build(local_storage(folder), OLD, spec, chunks=False))
        for spec, folder in folders.items()
    }


@pytest.fixture(params=[1])
def dated(
    request: pytest.FixtureRequest, built: dict[int, tuple[Path, dict[str, str]]], tmp_path: Path
) -> Dated:
    """Of spec 1, unless the test asks for another."""
    folder, ids = built[request.param]
    shutil.copytree(folder, tmp_path / "dated")
    found = read_history(open_reader(f"file://{folder}")).snapshots
    middle = (found[ids["2"]].flushed_at + found[ids["3"]].flushed_at) // 2
    return Dated(Repo(tmp_path / "dated", ids), instant(middle))


@pytest.fixture(scope="session")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return expired_sample(tmp_path_factory.mktemp("expired") / "repo", 1)


@pytest.fixture
def garbage(expired: Repo, tmp_path: Path) -> Repo:
    shutil.copytree(expired.folder, tmp_path / "repo")
    return Repo(tmp_path / "repo", expired.ids)
