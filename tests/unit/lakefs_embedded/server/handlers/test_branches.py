"""Branches and tags over HTTP."""

from __future__ import annotations

import lakefs
import pytest
from lakefs.exceptions import ConflictException, NotFoundException

from tests.support.lakefs_server import Lake


@pytest.fixture
def shop(lake: Lake) -> lakefs.Repository:
    repository = lake.repository("shop")
    main = repository.branch("main")
    main.object("a").upload(b"1")
    main.commit("first")
    return repository


def paths(ref: lakefs.Reference) -> list[str]:
    return [each.path for each in ref.objects()]


def test_create_branch_answers_with_the_commit_id_as_plain_text(shop: lakefs.Repository, lake: Lake) -> None:
    made = lake.http("POST", "/repositories/shop/branches", json_body={"name": "dev", "source": "main"})
    assert made.status == 201
    assert made.headers["Content-Type"].startswith("text/plain")
    assert made.data.decode() == shop.branch("main").head.id


def test_a_branch_that_exists_is_a_conflict(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main")
    with pytest.raises(ConflictException):
        shop.branch("dev").create("main")
    shop.branch("dev").create("main", exist_ok=True)


def test_branches_come_in_pages_in_name_order(shop: lakefs.Repository, lake: Lake) -> None:
    for number in range(12):
        shop.branch(f"b{number:02}").create("main")
    page = lake.sdk.branches_api.list_branches("shop", amount=5, prefix="b")
    assert [each.id for each in page.results] == [f"b{number:02}" for number in range(5)]
    pagination = page.pagination
    assert (pagination.has_more, pagination.next_offset, pagination.results) == (True, "b04", 5)
    assert pagination.max_per_page == 1000
    assert len(list(shop.branches(amount=5))) == 13
    last = lake.sdk.branches_api.list_branches("shop", amount=5, after="b10").pagination
    assert (last.has_more, last.next_offset, last.results) == (False, "", 2)


@pytest.mark.parametrize("amount", [-1, 0])
def test_no_amount_means_a_hundred(shop: lakefs.Repository, lake: Lake, amount: int) -> None:
    for number in range(105):
        shop.branch(f"b{number:03}").create("main")
    assert len(lake.sdk.branches_api.list_branches("shop", amount=amount).results) == 100


def test_uncommitted_changes_are_listed(shop: lakefs.Repository) -> None:
    main = shop.branch("main")
    main.object("a").upload(b"22")
    main.object("b").upload(b"1")
    assert [(each.type, each.path, each.size_bytes) for each in main.uncommitted()] == [
        ("changed", "a", 2),
        ("added", "b", 1),
    ]


@pytest.mark.parametrize(
    ("kind", "path", "left"),
    [("reset", None, []), ("object", "b", ["c/1", "c/2"]), ("common_prefix", "c/", ["b"])],
)
def test_reset_throws_away_what_it_names(
    shop: lakefs.Repository, kind: str, path: str | None, left: list[str]
) -> None:
    main = shop.branch("main")
    for each in ("b", "c/1", "c/2"):
        main.object(each).upload(b"1")
    main.reset_changes(kind, path)  # type: ignore[arg-type]
    assert [each.path for each in main.uncommitted()] == left


def test_an_unknown_kind_of_reset_is_400(shop: lakefs.Repository, lake: Lake) -> None:
    answer = lake.http("PUT", "/repositories/shop/branches/main", json_body={"type": "everything"})
    assert (answer.status, answer.json()) == (400, {"message": "unknown reset type"})


def test_hard_reset_moves_the_head(shop: lakefs.Repository, lake: Lake) -> None:
    main = shop.branch("main")
    main.object("b").upload(b"1")
    main.commit("second")
    lake.sdk.experimental_api.hard_reset_branch("shop", "main", "main~1")
    assert paths(main) == ["a"]


def test_a_tag_is_made_once_and_deleted_once(shop: lakefs.Repository) -> None:
    tag = shop.tag("v1").create("main")
    with pytest.raises(ConflictException):
        tag.create("main")
    tag.create("main", exist_ok=True)
    tag.delete()
    with pytest.raises(NotFoundException):
        tag.delete()
