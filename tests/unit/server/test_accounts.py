"""Who is let in."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from dredge.graveler.errors import GravelerError
from dredge.kv import open_store
from dredge.server.accounts import SETUP_KEY, Accounts
from dredge.server.folders import Credentials
from tests.support.lakefs_server import Clock

PAIR = Credentials("KEY", "se:cret", "nina")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def accounts(clock: Clock, credentials: Credentials | None = PAIR, key: str = "signing") -> Accounts:
    return Accounts(credentials, signing_key=key, login_seconds=60, clock=clock, kv=open_store("memory://"))


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


def test_a_token_that_was_changed_or_signed_elsewhere_is_refused() -> None:
    clock = Clock(START)
    known = accounts(clock)
    token, _ = known.login("KEY", "se:cret")
    header, claims, signature = token.split(".")
    longer = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"exp": 2**40}
    forged = base64.urlsafe_b64encode(json.dumps(longer).encode()).decode().rstrip("=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    elsewhere, _ = accounts(clock, key="other").login("KEY", "se:cret")
    for bad in (f"{header}.{forged}.{signature}", f"{none}.{claims}.", f"{header}.{claims}.", elsewhere):
        with pytest.raises(GravelerError):
            known.authenticate(f"Bearer {bad}")


def test_a_wrong_login_is_401() -> None:
    with pytest.raises(GravelerError) as refused:
        accounts(Clock(START)).login("KEY", "wrong")
    assert refused.value.status == 401


def test_nobody_gets_in_before_setup_and_setup_works_once() -> None:
    known = accounts(Clock(START), credentials=None)
    assert not known.initialized
    with pytest.raises(GravelerError):
        known.authenticate(basic("KEY:se:cret"))
    made, created = known.setup("jane")
    assert (made.user_name, created, known.initialized) == ("jane", START, True)
    assert known.authenticate(basic(f"{made.access_key_id}:{made.secret_access_key}")).name == "jane"
    with pytest.raises(GravelerError, match="already initialized") as refused:
        known.setup("jane")
    assert refused.value.status == 409


def test_the_moment_of_setup_is_kept_where_lakefs_keeps_it() -> None:
    kv = open_store("memory://")
    options = {"signing_key": "k", "login_seconds": 1, "kv": kv}
    Accounts(PAIR, clock=Clock(START), **options)  # type: ignore[arg-type]
    again = Accounts(PAIR, clock=Clock(START, days=3), **options)  # type: ignore[arg-type]
    assert kv.get(b"auth", SETUP_KEY) == b"2026-03-01T12:00:00Z"
    assert again.authenticate(basic("KEY:se:cret")).created == START
