"""The DynamoDB driver beyond what every store promises: lakeFS's layout, throttling, lost answers."""

from collections.abc import Iterator

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.kv.dynamodb import TRIES, TableAddress
from lakefs_embedded.kv import KeyNotFoundError
from lakefs_embedded.kv.dynamodb import DynamoStore
from tests.support.dynamodb import Faults, table_url

pytestmark = pytest.mark.usefixtures("aws_credentials")


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def store(dynamodb: str, pauses: list[float]) -> Iterator[DynamoStore]:
    with DynamoStore(table_url(dynamodb), sleep=pauses.append) as opened:
        yield opened


def test_the_table_is_the_one_of_a_real_lakefs(store: DynamoStore) -> None:
    store.set(b"p\x00", b"k\xff", b"v")
    table = store.client.describe_table(TableName=store.table)["Table"]
    assert table["KeySchema"] == [
        {"AttributeName": "PartitionKey", "KeyType": "HASH"},
        {"AttributeName": "ItemKey", "KeyType": "RANGE"},
    ]
    assert {d["AttributeName"]: d["AttributeType"] for d in table["AttributeDefinitions"]} == {
        "PartitionKey": "B",
        "ItemKey": "B",
    }
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    items = store.client.scan(TableName=store.table)["Items"]
    assert items == [{"PartitionKey": {"B": b"p\x00"}, "ItemKey": {"B": b"k\xff"}, "ItemValue": {"B": b"v"}}]


def test_a_value_beyond_the_limit_of_an_item_is_an_input_error(store: DynamoStore) -> None:
    with pytest.raises(ConfigError):
        store.set(b"p", b"k", b"x" * 410_000)


def test_a_lost_connection_is_unavailable_and_never_a_missing_key(store: DynamoStore) -> None:
    store.set(b"p", b"k", b"v")
    faults = Faults(store.client)
    faults.lose_requests(TRIES)
    with pytest.raises(UnavailableError):
        store.get(b"p", b"k")
    faults.lose_requests(TRIES)
    with pytest.raises(UnavailableError):
        list(store.scan(b"p"))
    with pytest.raises(KeyNotFoundError):
        store.get(b"p", b"other")


def test_a_read_survives_a_lost_answer(store: DynamoStore) -> None:
    store.set(b"p", b"k", b"v")
    Faults(store.client).lose_answers(2)
    assert store.get(b"p", b"k") == b"v"


def test_a_conditional_write_whose_answer_is_lost_never_fails_on_its_own_success(store: DynamoStore) -> None:
    faults = Faults(store.client)
    faults.lose_answers()
    with pytest.raises(UnavailableError):
        store.set_if(b"p", b"k", b"v", None)
    assert faults.sent == ["PutItem"], "sent once"
    assert store.get(b"p", b"k") == b"v", "and it had arrived"


def test_urls_say_where_and_never_who() -> None:
    assert TableAddress.parse("dynamodb://") == TableAddress("kvstore")
    address = TableAddress.parse("dynamodb://t?region=eu-west-1&endpoint=http://h:1")
    assert address == TableAddress("t", "eu-west-1", "http://h:1")
    assert address.location == "dynamodb://t?region=eu-west-1&endpoint=http://h:1"
    for wrong in (
        "dynamodb://key:secret@t",
        "dynamodb://t?endpoint=http://u:p@h",
        "dynamodb://t?acces_key=x",
    ):
        with pytest.raises(ConfigError) as caught:
            TableAddress.parse(wrong)
        assert "secret" not in str(caught.value)
