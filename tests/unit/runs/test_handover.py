"""The lease in a stored plan is only ever replaced by a later one of the same holder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import ConflictError, FormatError
from dredge.runs.lease import LeaseGrant, hand_over
from dredge.runs.payload import to_json
from dredge.storage import ObjectWriter, open_writer
from tests.support.memory_store import forget_memory_store

UNTIL = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "plan.json"


def grant(number: int, holder: str = "dag run") -> LeaseGrant:
    return LeaseGrant(holder, number, UNTIL)


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    found = open_writer("memory://handover-test/r1")
    found.put(KEY, json.dumps({"run_id": "r1", "lease": to_json(grant(1))}).encode())
    yield found
    forget_memory_store("handover-test")


def number(writer: ObjectWriter) -> int:
    found: dict[str, Any] = json.loads(writer.get(KEY))
    assert found["run_id"] == "r1"
    return int(found["lease"]["fencing"])


def test_a_later_lease_of_the_holder_is_handed_over(writer: ObjectWriter) -> None:
    assert hand_over(writer, KEY, grant(2))
    assert number(writer) == 2
    assert hand_over(writer, KEY, grant(2)), "a second try says the same"


def test_a_lost_try_never_puts_its_lower_number_back(writer: ObjectWriter) -> None:
    assert hand_over(writer, KEY, grant(3))
    assert not hand_over(writer, KEY, grant(2))
    assert number(writer) == 3


@pytest.mark.parametrize("moment", ["open_read", "put_if_match"])
def test_a_lost_try_loses_whenever_the_later_one_writes(writer: ObjectWriter, moment: str) -> None:
    """The later try hands over between any two calls that the lost one makes."""

    class Interrupted:
        uri = writer.uri
        done = False

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                if name == moment and not self.done:
                    self.done = True
                    assert hand_over(writer, KEY, grant(3))
                return getattr(writer, name)(*arguments)

            return call

    assert not hand_over(Interrupted(), KEY, grant(2))  # type: ignore[arg-type]
    assert number(writer) == 3


def test_a_plan_of_another_holder_is_left_alone(writer: ObjectWriter) -> None:
    assert not hand_over(writer, KEY, grant(2, "another dag run"))
    assert number(writer) == 1


def test_a_put_whose_answer_was_lost_counts(writer: ObjectWriter) -> None:
    class Deaf:
        uri = writer.uri
        open_read = writer.open_read

        def put_if_match(self, key: str, data: bytes, etag: str) -> None:
            writer.put_if_match(key, data, etag)
            raise ConflictError("was there")

    assert hand_over(Deaf(), KEY, grant(2))  # type: ignore[arg-type]
    assert number(writer) == 2


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"lease": {}}', b'{"lease": 1}'])
def test_what_is_no_plan_is_left_alone(writer: ObjectWriter, data: bytes) -> None:
    writer.put(KEY, data)
    with pytest.raises(FormatError):
        hand_over(writer, KEY, grant(2))
    assert writer.get(KEY) == data
