"""Repositories over HTTP."""

from __future__ import annotations

from pathlib import Path

import lakefs
import lakefs_sdk
import pytest
from lakefs.exceptions import BadRequestException, ConflictException

from tests.support.lakefs_server import Lake, lakefs_server


def test_a_new_repository_has_its_default_branch_and_first_commit(lake: Lake) -> None:
    repository = lake.repository("shop", default_branch="trunk")
    assert repository.properties.default_branch == "trunk"
    assert repository.properties.storage_namespace == lake.namespace("shop")
    first = repository.branch("trunk").get_commit()
    assert (first.message, first.meta_range_id, first.parents) == ("Repository created", "", [])


def test_creating_twice_is_a_conflict_and_exist_ok_finds_the_first(lake: Lake) -> None:
    lake.repository("shop")
    with pytest.raises(ConflictException):
        lake.repository("shop")
    again = lakefs.Repository("shop", lake.client).create("local:///elsewhere", exist_ok=True)
    assert again.properties.storage_namespace == lake.namespace("shop")


@pytest.mark.parametrize("name", ["No", "a", "a_b", "-ab", "ab cd", "x" * 64, ""])
def test_a_malformed_name_is_400(lake: Lake, name: str) -> None:
    body = {"name": name, "storage_namespace": lake.namespace("ok")}
    assert lake.http("POST", "/repositories", json_body=body).status == 400


def test_a_namespace_outside_of_the_base_is_400_and_nothing_is_made(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(BadRequestException, match="invalid namespace"):
        lakefs.Repository("shop", lake.client).create(f"local://{tmp_path}/elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    assert list(lakefs.repositories(client=lake.client)) == []


def test_repositories_are_listed_by_page_prefix_and_search(lake: Lake) -> None:
    for name in ("shop-a", "shop-b", "store-a"):
        lake.repository(name)
    first = lake.sdk.repositories_api.list_repositories(amount=2)
    assert [each.id for each in first.results] == ["shop-a", "shop-b"]
    assert (first.pagination.has_more, first.pagination.next_offset) == (True, "shop-b")
    rest = lake.sdk.repositories_api.list_repositories(amount=2, after="shop-b")
    assert ([each.id for each in rest.results], rest.pagination.has_more) == (["store-a"], False)
    assert [each.id for each in lakefs.repositories(client=lake.client, prefix="sto")] == ["store-a"]
    assert [each.id for each in lakefs.repositories(client=lake.client, search="a")] == ["shop-a", "store-a"]


def test_a_bare_repository_has_no_branch_and_its_answer_no_read_only(lake: Lake) -> None:
    body = {"name": "bare", "storage_namespace": lake.namespace("bare")}
    made = lake.http("POST", "/repositories", query={"bare": "true"}, json_body=body)
    assert made.status == 201
    assert sorted(made.json()) == ["creation_date", "default_branch", "id", "storage_id", "storage_namespace"]
    assert lake.sdk.branches_api.list_branches("bare").results == []


def test_a_read_only_repository_refuses_writes_unless_forced(lake: Lake) -> None:
    body = lakefs_sdk.RepositoryCreation(
        name="frozen", storage_namespace=lake.namespace("frozen"), read_only=True
    )
    assert lake.sdk.repositories_api.create_repository(body).read_only is True
    branch = lakefs_sdk.BranchCreation(name="b", source="main")
    with pytest.raises(lakefs_sdk.exceptions.ForbiddenException, match="read-only repository"):
        lake.sdk.branches_api.create_branch("frozen", branch)
    branch.force = True
    lake.sdk.branches_api.create_branch("frozen", branch)


def test_branch_protection_is_read_and_written_with_its_etag(lake: Lake) -> None:
    lake.repository("shop")
    path = "/repositories/shop/settings/branch_protection"
    before = lake.http("GET", path)
    assert before.json() == []
    assert (
        lake.http(
            "PUT", path, json_body=[{"pattern": "main"}], headers={"If-Match": before.headers["ETag"]}
        ).status
        == 204
    )
    assert lake.sdk.repositories_api.get_branch_protection_rules("shop")[0].pattern == "main"
    stale = lake.http("PUT", path, json_body=[], headers={"If-Match": before.headers["ETag"]})
    assert (stale.status, list(stale.json())) == (412, ["message"])


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
