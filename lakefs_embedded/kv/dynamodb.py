"""DynamoDB driver: a store in the table of a real lakeFS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep as _sleep

from dredge.errors import ConfigError
from dredge.kv.dynamodb import (
    KEY,
    PARTITION,
    VALUE,
    AwsKeys,
    ConditionFailedError,
    DynamoTable,
    condition_on,
    item_key,
)
from dredge.kv.rows import Entry, show_key
from lakefs_embedded.kv.model import KeyNotFoundError, PredicateFailedError, Store


class DynamoStore(DynamoTable, Store):
    """A `Store` on a DynamoDB table; a missing one is created or (not `create`) a `ConfigError`."""

    def __init__(
        self,
        url: str,
        create: bool = True,
        sleep: Callable[[float], None] = _sleep,
        keys: AwsKeys | None = None,
    ) -> None:
        self._creates = create
        super().__init__(url, sleep, keys)

    def __reduce__(self) -> tuple[type[DynamoStore], tuple[str, bool]]:
        return DynamoStore, (self._url, False)

    def get(self, partition: bytes, key: bytes) -> bytes:
        response = self.call("get_item", repeat=True, Key=item_key(partition, key), ConsistentRead=True)
        if "Item" not in response:
            raise KeyNotFoundError(f"{show_key(partition, key)} is not in {self.location}")
        value: bytes = response["Item"][VALUE]["B"]
        return value

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        for response in self.pages(partition, start):
            for item in response["Items"]:
                yield Entry(item[KEY]["B"], item[VALUE]["B"])

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self.call("put_item", Item=item_key(partition, key) | {VALUE: {"B": value}})

    def delete(self, partition: bytes, key: bytes) -> None:
        self.call("delete_item", Key=item_key(partition, key))

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        try:
            self.call(
                "put_item", Item=item_key(partition, key) | {VALUE: {"B": value}}, **condition_on(predicate)
            )
        except ConditionFailedError as error:
            name = show_key(partition, key)
            raise PredicateFailedError(f"{name}: the value is not the expected one") from error

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        try:
            self.call("delete_item", Key=item_key(partition, key), **condition_on(predicate))
        except ConditionFailedError as error:
            name = show_key(partition, key)
            raise PredicateFailedError(f"{name}: the value is not the expected one") from error

    def _find_table(self) -> None:
        try:
            super()._find_table()
            return
        except ConfigError as error:
            if not self._creates or "ResourceNotFoundException" not in str(error):
                raise
        try:
            self.call(
                "create_table",
                KeySchema=[
                    {"AttributeName": PARTITION, "KeyType": "HASH"},
                    {"AttributeName": KEY, "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": PARTITION, "AttributeType": "B"},
                    {"AttributeName": KEY, "AttributeType": "B"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        except ConfigError as error:
            if "ResourceInUseException" not in str(error):  # another process created it first
                raise
        self.client.get_waiter("table_exists").wait(TableName=self.table)
