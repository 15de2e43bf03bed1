"""Policy evaluation."""

from datetime import UTC, datetime

import pytest

from lakefs_embedded.auth.model import Policy, Statement
from lakefs_embedded.auth.permissions import Action, Grants, Permission, object_arn, repository_arn, user_arn

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def grants(*statements: tuple[str, str, str], user: str = "jane") -> Grants:
    """Grants of one policy; statements as (effect, actions with commas, resource)."""
    made = tuple(
        Statement(effect, tuple(actions.split(",")), resource) for effect, actions, resource in statements
    )
    return Grants(user, [Policy("p", NOW, made)])


def may(given_: Grants, action: str, resource: str) -> bool:
    return given_.denial(Permission(action, resource)) is None


READ_SHOP = ("allow", "fs:Read*,fs:List*", "arn:lakefs:fs:::repository/shop/object/public/*")


@pytest.mark.parametrize(
    ("statements", "action", "resource", "allowed"),
    [
        ([], Action.READ_OBJECT, object_arn("shop", "a"), False),
        ([("allow", "fs:*", "*")], Action.WRITE_OBJECT, object_arn("shop", "a"), True),
        ([("allow", "fs:*", "*")], Action.CREATE_USER, user_arn("bob"), False),
        ([READ_SHOP], Action.READ_OBJECT, object_arn("shop", "public/x:y"), True),
        ([READ_SHOP], Action.READ_OBJECT, object_arn("shop", "private/x"), False),
        ([READ_SHOP], Action.READ_OBJECT, object_arn("shop2", "public/x"), False),
        ([READ_SHOP], Action.WRITE_OBJECT, object_arn("shop", "public/x"), False),
        ([READ_SHOP], Action.LIST_OBJECTS, repository_arn("shop"), False),
        # a repository is not what lies in it, and the other way round
        ([("allow", "fs:*", repository_arn("shop"))], Action.READ_OBJECT, object_arn("shop", "a"), False),
        ([("allow", "fs:*", repository_arn("shop*"))], Action.READ_OBJECT, object_arn("shop", "a"), True),
        # services and accounts are compared whole, regions not at all
        ([("allow", "*", "arn:lakefs:auth:::*")], Action.READ_OBJECT, object_arn("shop", "a"), False),
        ([("allow", "fs:*", "arn:lakefs:fs:eu::*")], Action.READ_OBJECT, object_arn("shop", "a"), True),
        ([("allow", "fs:*", "arn:lakefs:fs::42:*")], Action.READ_OBJECT, object_arn("shop", "a"), False),
        # what is on nothing in particular is allowed by "*" alone
        ([("allow", "auth:*", "*")], Action.LIST_USERS, "*", True),
        ([("allow", "auth:*", "arn:lakefs:auth:::*")], Action.LIST_USERS, "*", False),
        # several resources
        ([("allow", "fs:*", f'["{repository_arn("a")}", "{repository_arn("b")}"]')],
         Action.READ_REPOSITORY, repository_arn("b"), True),
        # a wildcard in what is asked for is no wildcard
        ([("allow", "fs:*", object_arn("shop", "a"))], Action.READ_OBJECT, object_arn("shop", "*"), False),
    ],
)  # fmt: skip
def test_statements_allow_what_they_name(
    statements: list[tuple[str, str, str]], action: str, resource: str, allowed: bool
) -> None:
    assert may(grants(*statements), action, resource) is allowed


@pytest.mark.parametrize("order", [1, -1])
def test_deny_wins_whatever_the_order(order: int) -> None:
    statements = [("allow", "fs:*", "*"), ("deny", "fs:Delete*", "arn:lakefs:fs:::repository/shop/*")]
    held = grants(*statements[::order])
    assert may(held, Action.WRITE_OBJECT, object_arn("shop", "a"))
    assert may(held, Action.DELETE_OBJECT, object_arn("other", "a"))
    assert held.denial(Permission(Action.DELETE_OBJECT, object_arn("shop", "a"))) == (
        "denied permission to fs:Delete*"
    )
    assert held.denial(Permission(Action.READ_USER, user_arn("bob"))) == "not allowed to auth:ReadUser"


def test_who_has_a_statement_that_cannot_be_evaluated_may_do_nothing() -> None:
    full = Statement("allow", ("fs:*",), "*")
    for broken in (
        Statement("allow", ("fs:*",), "*", conditional=True),
        Statement("deny", ("fs:*",), "[not json]"),
        Statement("deny", ("fs:*",), ""),
    ):
        held = Grants("jane", [Policy("p", NOW, (full,)), Policy("q", NOW, (broken,))])
        assert not may(held, Action.READ_OBJECT, object_arn("shop", "a"))
