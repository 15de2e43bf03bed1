"""The loop around all deletions: permission before each attempt, and what lost answers leave open."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from dredge.storage import NOT_SENT, DeleteOutcome, StorageOptions
from dredge.storage.azure.deleting import AzureDeleter
from dredge.storage.deleting import (
    NOT_CONNECTED,
    UNCLEAR,
    AdaptiveRate,
    Codes,
    DeleteLoop,
)
from dredge.storage.location import parse_uri
from dredge.storage.model import MaySend, always
from dredge.storage.options import AzureOptions
from dredge.storage.s3.deleting import S3Deleter
from tests.support.objectstore import ScriptedS3

BUSY, BROKEN, NO_BATCH = "Busy", "Broken", "NoBatch"
CODES = Codes(
    throttled=frozenset({BUSY}),
    transient=frozenset({BROKEN}),
    no_batches=frozenset({NO_BATCH}),
    batch_attempts=3,
)

type Said = Callable[[list[str], int], dict[str, str]]
"""Codes of the keys of an attempt, by the number of the attempt; keys without one are "deleted"."""


class Rate(AdaptiveRate):
    """Lets everything go at once, and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.acquired: list[int] = []
        self.complaints = 0

    def acquire(self, keys: int) -> None:
        self.acquired.append(keys)

    def throttled(self) -> None:
        self.complaints += 1


class Store:
    """Answers attempts as a test says, and remembers them."""

    def __init__(self, said: Said, versioned: bool = False, codes: Codes = CODES) -> None:
        self._said = said
        self.asked: list[list[str]] = []
        self.waits: list[float] = []
        self.rate = Rate()
        self.loop = DeleteLoop[str](self._send, codes, str, self.rate, self.waits.append, versioned)

    def delete(self, *batches: list[str], may_send: MaySend = always) -> dict[str, DeleteOutcome]:
        return self.loop.delete(list(batches), may_send, 1)

    def _send(self, keys: list[str], _may_send: MaySend) -> Sequence[DeleteOutcome]:
        self.asked.append(keys)
        codes = self._said(keys, len(self.asked))
        return [_outcome(key, codes.get(key)) for key in keys]


def _outcome(key: str, code: str | None) -> DeleteOutcome:
    if code in (None, "missing"):
        return DeleteOutcome(key, "missing" if code else "deleted")
    return DeleteOutcome(key, "failed", code)


def answers(*turns: dict[str, str]) -> Said:
    """What each attempt says in turn; after them all is deleted."""
    return lambda _keys, number: turns[number - 1] if number <= len(turns) else {}


def told(found: dict[str, DeleteOutcome]) -> dict[str, tuple[str, str | None]]:
    return {key: (item.outcome, item.code) for key, item in found.items()}


@pytest.mark.parametrize("code", [BROKEN, UNCLEAR])
def test_what_is_gone_after_an_answer_in_doubt_was_deleted_and_says_so(code: str) -> None:
    store = Store(answers({"a": code, "c": "missing"}, {"a": "missing"}))
    found = store.delete(["a", "b", "c"])
    assert {key: item.outcome for key, item in found.items()} == {
        "a": "deleted",
        "b": "deleted",
        "c": "missing",
    }
    assert found["a"].message == f"missing on a second request; the first answer was lost ({code})"
    assert [found[key].message for key in "bc"] == [None, None]


@pytest.mark.parametrize("code", [BUSY, NOT_CONNECTED])
def test_a_request_that_did_nothing_leaves_no_doubt(code: str) -> None:
    found = Store(answers({"a": code}, {"a": "missing"})).delete(["a"])
    assert found["a"] == DeleteOutcome("a", "missing")


def test_each_attempt_is_asked_for_and_none_is_made_without_permission() -> None:
    store = Store(lambda keys, _number: dict.fromkeys(keys, BUSY))
    permitted = iter([True, True, False, False])
    found = store.delete(["a", "b"], ["c"], may_send=lambda: next(permitted))
    assert store.asked == [["a", "b"], ["a", "b"]]
    assert told(found) == {"a": ("failed", BUSY), "b": ("failed", BUSY), "c": ("failed", NOT_SENT)}


def test_a_no_of_the_driver_does_not_hide_that_a_key_was_sent_before() -> None:
    found = Store(answers({"a": BROKEN}, {"a": NOT_SENT})).delete(["a"])
    assert told(found) == {"a": ("failed", BROKEN)}


def test_what_no_answer_speaks_about_is_asked_alone_and_permission_with_it() -> None:
    store = Store(answers({"a": UNCLEAR, "b": UNCLEAR}))
    permitted = iter([True, True, False])
    found = store.delete(["a", "b", "c"], may_send=lambda: next(permitted))
    assert store.asked == [["a", "b", "c"], ["a"]]
    assert told(found) == {"a": ("deleted", None), "b": ("failed", UNCLEAR), "c": ("deleted", None)}


def out_of_reach() -> Iterable[AzureDeleter | S3Deleter]:
    with ScriptedS3(lambda *_: (200, "")) as server:
        options = server.options
    azure = AzureOptions("acct", "c2VjcmV0LWtleQ==", endpoint_url=f"{options.endpoint_url}/acct")
    stored = StorageOptions(azure=azure)
    yield AzureDeleter(parse_uri(f"{azure.endpoint_url}/c/lake", stored), stored)
    found = S3Deleter(parse_uri("s3://bkt/lake", options), options)
    found._versioned = False
    yield found


def test_a_store_that_is_out_of_reach_was_sent_nothing() -> None:
    for deleter in out_of_reach():
        deleter._sleep = lambda _seconds: None
        assert {(item.outcome, item.code) for item in deleter.delete(["a", "b"])} == {
            ("failed", NOT_CONNECTED)
        }
