"""A DynamoDB for tests: moto's server in a thread."""

import contextlib
import hashlib
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.objectstore import running_moto


@contextlib.contextmanager
def dynamodb_server() -> Iterator[str]:
    """Run a server; yields its endpoint."""
    from moto.core.serialize import JSONSerializer
    from moto.dynamodb.models.dynamo_type import Item
    from moto.dynamodb.responses import DynamoHandler

    def is_within_segment(item: Any, segments: tuple[int | None, int | None]) -> bool:
        segment, total = segments
        return total is None or hashlib.md5(item.hash_key.value).digest()[0] % total == segment

    serialize_structure = JSONSerializer._serialize_type_structure

    def serialize(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name == "AttributeValue" and isinstance(value, dict) and list(value) == ["B"]:
            serialized[key] = {"B": self._base64(value["B"])}
        else:
            serialize_structure(self, serialized, value, shape, key)

    lock = threading.Lock()
    call_action = DynamoHandler.call_action

    def one_at_a_time(handler: Any) -> Any:
        with lock:
            return call_action(handler)

    # A conditional write is atomic in DynamoDB; moto looks first and writes then, in many threads.
    patch = pytest.MonkeyPatch()
    patch.setattr(DynamoHandler, "call_action", one_at_a_time)
    # moto's own version takes every hash key for text, and fails on binary ones.
    patch.setattr(Item, "is_within_segment", is_within_segment)
    # What takes most of its time: each attribute is looked up by many names.
    patch.setattr(JSONSerializer, "_serialize_type_structure", serialize)
    try:
        with running_moto("dynamodb") as (_, url):
            yield url
    finally:
        patch.undo()


def table_url(endpoint: str) -> str:
    return f"dynamodb://kv{uuid.uuid4().hex[:12]}?region=us-east-1&endpoint={endpoint}"


class Faults:
    """Makes the next requests of a client fail before or after they reach the server."""

    def __init__(self, client: Any) -> None:
        self._before: list[Any] = []
        self._lost = 0
        self.sent: list[str] = []
        self.bodies: list[Any] = []
        client.meta.events.register("before-send.dynamodb.*", self._send)
        client.meta.events.register("after-call.dynamodb.*", self._answer)

    def refuse(self, code: str, times: int = 1, status: int = 400) -> None:
        """Answer the next requests with an error, unsent."""
        self._before += [(code, status)] * times

    def lose_answers(self, times: int = 1) -> None:
        self._lost += times

    def lose_requests(self, times: int = 1) -> None:
        """Lose the next requests before the server."""
        self._before += [None] * times

    def _send(self, request: Any, **_: Any) -> Any:
        import io

        from botocore.awsrequest import AWSResponse
        from botocore.exceptions import ConnectionClosedError

        self.sent.append(request.headers["X-Amz-Target"].decode().rpartition(".")[2])
        self.bodies.append(json.loads(request.body))
        if not self._before:
            return None
        fault = self._before.pop(0)
        if fault is None:
            raise ConnectionClosedError(endpoint_url=request.url)
        code, status = fault
        body = f'{{"__type": "com.amazonaws.dynamodb.v20120810#{code}", "message": "made up"}}'.encode()

        class Raw(io.BytesIO):
            def stream(self, **_: Any) -> Iterator[bytes]:
                yield self.read()

        return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.0"}, Raw(body))

    def _answer(self, **_: Any) -> None:
        from botocore.exceptions import ConnectionClosedError

        if self._lost:
            self._lost -= 1
            raise ConnectionClosedError(endpoint_url="http://lost")
