"""Authentication by key pair and by token."""

import base64
from datetime import UTC, datetime

import pytest

from lakefs_embedded.auth.accounts import Accounts
from lakefs_embedded.errors import GravelerError
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server.authentication import Authenticator
from tests.support.lakefs_server import Clock

PAIR = ("nina", "KEY", "se:cret")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def known_to(accounts: Accounts, clock: Clock, key: str = "signing") -> Authenticator:
    return Authenticator(accounts, signing_key=key, login_seconds=60, clock=clock)


def accounts(clock: Clock, key: str = "signing", kv: Store | None = None) -> Authenticator:
    kv = open_store("memory://") if kv is None else kv
    return known_to(Accounts(kv, signing_key=key, clock=clock, owner=PAIR), clock, key)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_the_right_key_pair_names_its_user() -> None:
    user = accounts(Clock(START)).authenticate(basic("KEY:se:cret"))
    assert (user.name, user.created) == ("nina", START)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xff:x").decode(),
        basic("KEY"),
        basic("KEY:"),
        basic("KEY:secret"),
        basic("key:se:cret"),
        basic(":se:cret"),
        basic("KÉY:se:cret"),
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Digest KEY",
        "KEY:se:cret",
    ],
)
def test_everything_else_is_401_in_the_same_words(header: str | None) -> None:
    with pytest.raises(GravelerError) as refused:
        accounts(Clock(START)).authenticate(header)
    assert refused.value.status == 401
    assert str(refused.value) == "error authenticating request"


def test_a_login_token_stands_for_the_user_until_it_ends() -> None:
    clock = Clock(START)
    known = accounts(clock)
    token, expires = known.login("KEY", "se:cret")
    assert (expires - START).total_seconds() == 60
    assert known.authenticate(f"Bearer {token}").name == "nina"
    clock.advance(seconds=59)
    assert known.authenticate(f"bearer {token}").name == "nina"
    clock.advance(seconds=1)
    with pytest.raises(GravelerError):
        known.authenticate(f"Bearer {token}")
