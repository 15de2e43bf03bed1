"""DynamoDB driver with the table of a real lakeFS.

    hash key PartitionKey (binary) · range key ItemKey (binary) · attribute ItemValue (binary) · on-demand billing

Gets and queries are consistent reads. The client's own retries are off, because it does not know which requests are
idempotent: a throttled request had no effect and is always retried, with backoff; after a lost response only a read is
retried. A repeated conditional write would fail because the first write succeeded.

Source: L61 of docs/lakefs-behaviour.md (pkg/kv/dynamodb/store.go).
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct

from dredge import causes
from dredge.connections import check_key, check_server_url
from dredge.errors import ConfigError, DredgeError

PARTITION, KEY, VALUE = "PartitionKey", "ItemKey", "ItemValue"
DEFAULT_TABLE = "kvstore"
_URL = re.compile(r"dynamodb://(?P<table>[\w.-]*)/?(?:\?(?P<query>[^#@\s]*))?", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]+")
PAGE_ITEMS = 1024
TRIES = 10
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "LimitExceededException",
        "TransactionInProgressException",
    }
)


class TableAddress(Struct, frozen=True):
    """Address of a table. A region or endpoint of None is taken from the environment."""

    table: str
    region: str | None = None
    endpoint: str | None = None

    @classmethod
    def parse(cls, url: str) -> TableAddress:
        """Parse `dynamodb://TABLE?region=…&endpoint=…`; the default table is lakeFS's `kvstore`."""
        found = _URL.fullmatch(url)
        asked = parse_qs(found["query"] or "") if found else {}
        region, endpoint = (asked.get(name, [None])[0] for name in ("region", "endpoint"))
        if found is None or set(asked) - {"region", "endpoint"} or not _REGION.fullmatch(region or "x"):
            raise ConfigError(
                "the URL of a DynamoDB table must have the form dynamodb://TABLE?region=…&endpoint=…, without"
                " credentials: use AWS's environment variables or profiles. Nothing was changed."
            )
        if endpoint is not None:
            check_server_url(endpoint, "the endpoint of DynamoDB", "http://host:8000")
        return cls(found["table"] or DEFAULT_TABLE, region, endpoint)

    @property
    def location(self) -> str:
        """Return the table's URL for reports."""
        options = [f"region={self.region}"] if self.region else []
        options += [f"endpoint={self.endpoint}"] if self.endpoint else []
        return f"dynamodb://{self.table}" + (f"?{'&'.join(options)}" if options else "")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """AWS credentials in place of the environment's."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_key(self.access_key_id, "the access key id of DynamoDB")
        check_key(self.secret_access_key, "the secret access key of DynamoDB")
        check_key(self.session_token, "the session token of DynamoDB")


class DynamoTable:
    """A DynamoDB table; thread-safe. `url`: see `TableAddress.parse`. Credentials are in AWS's environment variables,
    profiles or instance roles."""

    def __init__(
        self,
        url: str,
        sleep: Callable[[float], None] = time.sleep,
        keys: AwsKeys | None = None,
    ) -> None:
        address = TableAddress.parse(url)
        self.location = address.location
        self.table = address.table
        self._sleep = sleep
        self._url = url
        self._pid = os.getpid()
        self._keys = keys
        self.client = _client(address, keys)
        try:
            self._find_table()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def pages(self, partition: bytes, start: bytes = b"", **more: Any) -> Iterator[dict[str, Any]]:
        """Query a partition from `start` (inclusive), and yield the responses; `more` are arguments of each request."""
        names, condition = {"#p": PARTITION}, "#p = :p"
        values = {":p": {"B": partition}}
        if start:  # DynamoDB allows neither an empty key nor a condition on one
            names["#k"], values[":k"] = KEY, {"B": start}
            condition += " AND #k >= :k"
        page: dict[str, Any] = {}
        while True:
            response = self.call(
                "query",
                repeat=True,
                KeyConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                Limit=PAGE_ITEMS,
                **more,
                **page,
            )
            yield response
            if "LastEvaluatedKey" not in response:
                return
            page = {"ExclusiveStartKey": response["LastEvaluatedKey"]}

    def close(self) -> None:
        self.client.close()

    def call(self, operation: str, repeat: bool = False, **arguments: Any) -> dict[str, Any]:
        """Send a request for the table, with retries. `repeat`: whether the request is idempotent, so that it may be
        retried after a lost response. Raises UnavailableError: throttled too often, or no response; a write may have
        taken effect."""
        from botocore.exceptions import BotoCoreError, ClientError

        if self._pid != os.getpid():
            # Sockets must not cross a fork: parent and child would read each other's responses.
            self.client, self._pid = _client(TableAddress.parse(self._url), self._keys), os.getpid()
        if operation != "transact_write_items":
            arguments["TableName"] = self.table
        for attempt in range(1, TRIES + 1):
            if attempt > 1:
                longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1))
                self._sleep(random.uniform(longest / 2, longest))
            try:
                response: dict[str, Any] = getattr(self.client, operation)(**arguments)
                return response
            except ClientError as error:
                failure, again = self._classify(error, repeat)
            except BotoCoreError as error:
                words = f"{self.location}: {operation} got no response ({type(error).__name__})"
                cause = causes.cause_without_answer(error)
                failure, again = (
                    cause.error(words),
                    repeat and cause in (causes.UNREACHABLE, causes.NO_ANSWER),
                )
            if not again or attempt == TRIES:
                raise failure from None  # the client's own error may repeat headers
        raise AssertionError("unreachable")

    def _classify(self, error: Any, repeat: bool) -> tuple[DredgeError, bool]:
        code = error.response["Error"]["Code"]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        cause = (
            causes.NO_CONTAINER
            if code == "ResourceNotFoundException"
            else causes.cause_of_code(code, status) or causes.REJECTED
        )
        text = f"{self.location}: {error.operation_name}: {code}"
        if cause not in (
            causes.CREDENTIALS,
            causes.EXPIRED,
        ):  # those messages repeat headers, of which one is the session token
            text += f": {error.response['Error'].get('Message', '')}"
        if code == "ConditionalCheckFailedException":
            return ConditionFailedError(text), False
        if code == "TransactionCanceledException":
            reasons = [reason.get("Code", "None") for reason in error.response.get("CancellationReasons", [])]
            if "ConditionalCheckFailed" in reasons:
                return ConditionFailedError(text, reasons), False
            return causes.BUSY.error(text), True  # throttled, or another transaction on the same rows
        if code in _THROTTLED:
            return causes.BUSY.error(text), True
        return cause.error(text), repeat and cause is causes.BUSY

    def _find_table(self) -> None:
        self.call("describe_table", repeat=True)


class ConditionFailedError(DredgeError):
    """A condition of a write failed; `reasons` has DynamoDB's code for each action of a transaction."""

    def __init__(self, message: str, reasons: list[str] | None = None) -> None:
        super().__init__(message)
        self.reasons = reasons or []


def item_key(partition: bytes, key: bytes) -> dict[str, dict[str, bytes]]:
    """Return the key of an item."""
    return {PARTITION: {"B": partition}, KEY: {"B": key}}


def condition_on(value: bytes | None) -> dict[str, Any]:
    """Return the condition that an item has a value or, with None, does not exist."""
    if value is None:
        return {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": KEY}}
    return {
        "ConditionExpression": "#v = :v",
        "ExpressionAttributeNames": {"#v": VALUE},
        "ExpressionAttributeValues": {":v": {"B": value}},
    }


def _client(address: TableAddress, keys: AwsKeys | None) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.session.Session().client(
            "dynamodb",
            region_name=address.region,
            endpoint_url=address.endpoint,
            aws_access_key_id=keys.access_key_id if keys else None,
            aws_secret_access_key=keys.secret_access_key if keys else None,
            aws_session_token=keys.session_token if keys else None,
            config=Config(
                retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30, max_pool_connections=32
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(
            f"{address.location}: the AWS client could not be created ({type(error).__name__}): check region, endpoint"
            " and AWS's configuration. Nothing was changed."
        ) from None
