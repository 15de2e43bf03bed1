"""Commits, merges, comparisons over HTTP."""

from pathlib import Path

import lakefs
import pytest
from lakefs.exceptions import ConflictException

from tests.support.lakefs_server import Lake, lakefs_server


@pytest.fixture
def shop(lake: Lake) -> lakefs.Repository:
    repository = lake.repository("shop")
    put(repository, "main", a=b"1")
    return repository


def put(repository: lakefs.Repository, branch: str, **objects: bytes) -> str:
    """Upload and commit; gives the commit's id."""
    target = repository.branch(branch)
    for path, content in objects.items():
        target.object(path).upload(content)
    return target.commit(f"add {' '.join(objects)}").id


def test_the_log_goes_back_in_pages(shop: lakefs.Repository, lake: Lake) -> None:
    ids = [put(shop, "main", **{f"p{number}": b"1"}) for number in range(5)]
    assert [each.id for each in shop.branch("main").log(amount=2)][:5] == ids[::-1]
    assert len(list(shop.branch("main").log(amount=2))) == 7
    page = lake.sdk.refs_api.log_commits("shop", "main", amount=2)
    assert (page.pagination.has_more, page.pagination.next_offset) == (True, ids[-2])


def test_a_merge_conflict_is_409_with_a_body_of_its_own(shop: lakefs.Repository, lake: Lake) -> None:
    shop.branch("dev").create("main")
    put(shop, "dev", a=b"dev")
    put(shop, "main", a=b"main!")
    conflict = lake.http("POST", "/repositories/shop/refs/dev/merge/main")
    assert (conflict.status, conflict.data) == (409, b'{"reference":""}\n')
    with pytest.raises(ConflictException):
        shop.branch("dev").merge_into("main")


# Repositories over HTTP.


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
