"""Branches and tags over HTTP."""

from __future__ import annotations

import lakefs
import pytest

from tests.support.lakefs_server import Lake


@pytest.fixture
def shop(lake: Lake) -> lakefs.Repository:
    repository = lake.repository("shop")
    main = repository.branch("main")
    main.object("a").upload(b"1")
    main.commit("first")
    return repository


def test_create_branch_answers_with_the_commit_id_as_plain_text(shop: lakefs.Repository, lake: Lake) -> None:
    made = lake.http("POST", "/repositories/shop/branches", json_body={"name": "dev", "source": "main"})
    assert made.status == 201
    assert made.headers["Content-Type"].startswith("text/plain")
    assert made.data.decode() == shop.branch("main").head.id
