"""Repositories over HTTP."""

from __future__ import annotations

from pathlib import Path

import lakefs
import pytest

from tests.support.lakefs_server import Lake, lakefs_server


def test_a_new_repository_has_its_default_branch_and_first_commit(lake: Lake) -> None:
    repository = lake.repository("shop", default_branch="trunk")
    assert repository.properties.default_branch == "trunk"
    assert repository.properties.storage_namespace == lake.namespace("shop")
    first = repository.branch("trunk").get_commit()
    assert (first.message, first.meta_range_id, first.parents) == ("Repository created", "", [])


def test_sample_data_is_refused_and_no_repository_is_made(lake: Lake) -> None:
    with pytest.raises(lakefs.exceptions.ServerException) as refused:
        lake.repository("samples", include_samples=True)
    assert refused.value.status_code == 501
    assert "samples" not in {each.id for each in lakefs.repositories(lake.client)}


def test_a_repository_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/kv.db"
    with lakefs_server(tmp_path, kv_url=url) as lake:
        lake.repository("shop").branch("main").object("a").upload(b"kept")
    with lakefs_server(tmp_path, kv_url=url) as lake:
        reader = lakefs.Repository("shop", lake.client).branch("main").object("a").reader()
        assert reader.read() == b"kept"
