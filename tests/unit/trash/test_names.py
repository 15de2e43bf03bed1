"""What the shape of a name says, and what it does not."""

from __future__ import annotations

import pytest

from dredge.trash.names import (
    Instance,
    deleted_instance,
    is_token,
    parse_instance,
    possible_branches,
)
from tests.support.kv_world import START

UID = "dcrep00ivln1f1ipml70"
"""Made at START; the same in every process of the tests, whose names it is part of."""
UUID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("repository", ["lake", "my-lake", "abc", "0" * 63])
def test_an_instance_is_a_repository_name_and_the_xid_of_its_beginning(repository: str) -> None:
    found = parse_instance(f"{repository}-{UID}".encode())
    assert found == Instance(repository, UID, START)
    assert found.partition == f"{repository}-{UID}".encode()


@pytest.mark.parametrize(
    "name",
    [
        UID,
        f"-{UID}",
        f"lake.{UID}",
        f"lake{UID}",
        f"lake-{UID[:-1]}",
        f"lake-{UID[:-1]}z",
        f"lake-{UID.upper()}",
        f"la-{UID}",
        f"Lake-{UID}",
        f"la_ke-{UID}",
        f"-lake-{UID}",
        f"{'a' * 64}-{UID}",
        f"lake-{UID}\n",
        f"l\u00e4ke-{UID}",
        "",
    ],
)
def test_another_shape_is_no_instance(name: str) -> None:
    assert parse_instance(name.encode()) is None


def test_an_entry_of_the_cleaner_names_an_instance_in_three_parts() -> None:
    assert deleted_instance(f"repo/my-lake/{UID}".encode()) == Instance("my-lake", UID, START)
    for key in (
        f"repos/lake/{UID}",
        f"repo/lake/{UID}/x",
        f"lake/{UID}",
        f"repo/lake-{UID}",
        f"repo/lake/x-{UID}",
        f"repo/{UID}/lake",
        f"repo/la/{UID}",
    ):
        assert deleted_instance(key.encode()) is None, key


@pytest.mark.parametrize(
    "name",
    [
        f"lake:{UUID}",
        f"lake-main{UUID}",
        f"lake-main:{UUID}0",
        f"lake-main:{UUID[:-1]}",
        f"lake-main:{UUID[:-1]}g",
        f"Lake-main:{UUID}",
        f"la-main:{UUID}",
        f"lake-m/n:{UUID}",
        f"lake-main:{UUID}\n",
        f"l\u00e4ke-main:{UUID}",
        f"import-ingest_range:{UUID}",
    ],
)
def test_another_shape_is_no_token(name: str) -> None:
    assert not is_token(name.encode())


def test_a_token_may_be_of_every_branch_that_its_text_can_be_split_into() -> None:
    assert possible_branches(f"my-lake-main:{UUID}".encode()) == [("my", "lake-main"), ("my-lake", "main")]
    assert possible_branches(f"lake-a:b:{UUID}".encode()) == [("lake", "a:b")]
    assert possible_branches(f"lake:{UUID}".encode()) == []
    assert possible_branches(f"l\u00e4ke-main:{UUID}".encode()) == []
