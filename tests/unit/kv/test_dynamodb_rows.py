"""Raw rows of DynamoDB: the rate limit holds, and a delete removes exactly the given rows."""

from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError
from dredge.kv.dynamodb_rows import DynamoRows, RateLimiter
from dredge.kv.rows import Guard, ReadRate, Row
from lakefs_embedded.kv.dynamodb import DynamoStore
from tests.support.dynamodb import Faults, table_url

pytestmark = pytest.mark.usefixtures("aws_credentials")


@pytest.fixture
def url(dynamodb: str) -> str:
    return table_url(dynamodb)


@pytest.fixture
def store(url: str) -> Iterator[DynamoStore]:
    with DynamoStore(url) as opened:
        yield opened


@pytest.fixture
def rows(url: str, store: DynamoStore) -> Iterator[DynamoRows]:
    opened = DynamoRows(url, sleep=lambda seconds: None)
    yield opened
    opened.close()


def test_partitions_are_found_in_all_segments(store: DynamoStore, url: str) -> None:
    names = sorted([b"\x00", b"\xff", *(b"p%d" % number for number in range(20))])
    for name in names:
        store.set(name, b"1", b"v")
        store.set(name, b"2", b"v")
    for segments in (1, 3, 8):
        rows = DynamoRows(url, ReadRate(segments=segments))
        with rows.view() as view:
            assert list(view.partitions()) == names
            assert not view.consistent
        rows.close()


def test_a_pacer_spreads_what_is_read_over_time() -> None:
    clock = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    limiter = RateLimiter(10, now=lambda: clock[0], sleep=sleep)
    for _ in range(5):
        limiter.consume(20)
    assert clock[0] - 100 == pytest.approx(10)  # 100 units at 10 a second
    RateLimiter(None, sleep=sleep).consume(1e9)
    assert len(slept) == 5


def test_many_rows_go_in_transactions_of_a_hundred_actions(store: DynamoStore, rows: DynamoRows) -> None:
    doomed = [Row(b"p", b"%04d" % number, b"v%d" % number) for number in range(205)]
    for row in doomed:
        store.set(*row)
    store.set(b"g", b"k", b"v")
    faults = Faults(rows._store.client)
    assert rows.delete_rows(doomed, [Guard(b"g", b"k", b"v")]) == [True] * 205
    assert faults.sent == ["TransactWriteItems"] * 3
    assert list(store.scan(b"p")) == []


def test_a_deletion_whose_answer_is_lost_is_sent_again_as_the_same_one(
    store: DynamoStore, rows: DynamoRows
) -> None:
    store.set(b"p", b"k", b"v")
    faults = Faults(rows._store.client)
    faults.lose_answers()
    rows.delete_rows([Row(b"p", b"k", b"v")])
    # DynamoDB answers a token it knows with the first outcome; moto does not look at it.
    first, second = (body["ClientRequestToken"] for body in faults.bodies[:2])
    assert first == second
    assert list(store.scan(b"p")) == []


def test_a_throttled_deletion_is_tried_again(store: DynamoStore, rows: DynamoRows) -> None:
    store.set(b"p", b"k", b"v")
    Faults(rows._store.client).refuse("ThrottlingException", 3)
    assert rows.delete_rows([Row(b"p", b"k", b"v")]) == [True]


def test_a_missing_table_is_not_made_by_looking(dynamodb: str) -> None:
    with pytest.raises(ConfigError):
        DynamoRows(table_url(dynamodb))
