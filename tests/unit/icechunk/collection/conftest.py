"""Repositories with garbage, built once and copied for each test."""

import shutil
from pathlib import Path

import pytest

from tests.support.icechunk_repo import Repo, expired_sample


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Repo]:
    folder = tmp_path_factory.mktemp("both")
    return {spec: expired_sample(folder / f"v{spec}", spec) for spec in (1, 2)}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest, both: dict[int, Repo], tmp_path: Path) -> Repo:
    return _copy(both[request.param], tmp_path)


@pytest.fixture
def v1(both: dict[int, Repo], tmp_path: Path) -> Repo:
    return _copy(both[1], tmp_path)


@pytest.fixture
def v2(both: dict[int, Repo], tmp_path: Path) -> Repo:
    return _copy(both[2], tmp_path)


def _copy(made: Repo, folder: Path) -> Repo:
    shutil.copytree(made.folder, folder / "repo")
    return Repo(folder / "repo", made.ids)
