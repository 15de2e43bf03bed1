"""Branches and tags over HTTP."""

from __future__ import annotations

import lakefs
import lakefs_sdk
import pytest
from lakefs.exceptions import BadRequestException, ConflictException, ForbiddenException, NotFoundException

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


def test_a_new_branch_starts_at_its_source_without_what_is_staged_there(shop: lakefs.Repository) -> None:
    shop.branch("main").object("staged").upload(b"x")
    made = shop.branch("dev").create("main")
    assert made.head.id == shop.branch("main").head.id
    assert paths(made) == ["a"]


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


def test_an_unknown_source_is_404(shop: lakefs.Repository) -> None:
    with pytest.raises(NotFoundException):
        shop.branch("dev").create("nowhere")


def test_hidden_branches_are_listed_only_when_asked_for(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main")
    shop.branch("secret").create("main", hidden=True)
    assert [each.id for each in shop.branches()] == ["dev", "main"]
    assert [each.id for each in shop.branches(show_hidden=True)] == ["dev", "main", "secret"]


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


def test_a_deleted_branch_is_gone(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main").delete()
    with pytest.raises(NotFoundException):
        shop.branch("dev").head  # noqa: B018


def test_the_default_branch_cannot_be_deleted(shop: lakefs.Repository) -> None:
    with pytest.raises(ForbiddenException):
        shop.branch("main").delete()


def test_uncommitted_changes_are_listed(shop: lakefs.Repository) -> None:
    main = shop.branch("main")
    main.object("a").upload(b"22")
    main.object("b").upload(b"1")
    assert [(each.type, each.path, each.size_bytes) for each in main.uncommitted()] == [
        ("changed", "a", 2),
        ("added", "b", 1),
    ]


def test_uncommitted_changes_below_a_delimiter_are_folded(shop: lakefs.Repository) -> None:
    main = shop.branch("main")
    for path in ("d/1", "d/2", "e"):
        main.object(path).upload(b"1")
    changes = [(each.type, each.path, each.path_type) for each in main.uncommitted(delimiter="/")]
    assert changes == [("prefix_changed", "d/", "common_prefix"), ("added", "e", "object")]


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


def test_tags_name_commits(shop: lakefs.Repository) -> None:
    tag = shop.tag("v1.0").create("main")
    assert tag.get_commit().id == shop.branch("main").head.id
    assert [each.id for each in shop.tags()] == ["v1.0"]
    assert paths(tag) == ["a"]


def test_a_tag_is_made_once_and_deleted_once(shop: lakefs.Repository) -> None:
    tag = shop.tag("v1").create("main")
    with pytest.raises(ConflictException):
        tag.create("main")
    tag.create("main", exist_ok=True)
    tag.delete()
    with pytest.raises(NotFoundException):
        tag.delete()


def test_a_tag_cannot_have_a_branchs_name(shop: lakefs.Repository) -> None:
    with pytest.raises(ConflictException):
        shop.tag("main").create("main")


@pytest.mark.parametrize("name", ["a b", "a..b", "a^", "~a", ""])
def test_a_malformed_tag_is_400(shop: lakefs.Repository, name: str) -> None:
    with pytest.raises(BadRequestException):
        shop.tag(name).create("main")


@pytest.mark.parametrize("name", ["a b", "a/b", "a.b", "a:b", "", "-a"])
def test_a_malformed_branch_is_400(shop: lakefs.Repository, lake: Lake, name: str) -> None:
    with pytest.raises(lakefs_sdk.exceptions.BadRequestException):
        lake.sdk.branches_api.create_branch("shop", lakefs_sdk.BranchCreation(name=name, source="main"))
