"""What each object's copy tells about whether the object may go."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.runs import ledger
from dredge.runs.sweep import Protect, Protected
from dredge.storage import NOT_SENT, open_writer
from dredge.storage.model import always
from dredge.undo.protecting import NOT_COPIED, protection
from dredge.undo.ways import OFF, QUARANTINE, VERSIONS, quarantine_uri
from tests.support.memory_store import MemoryWriter, forget_memory_store, memory_store
from tests.support.memory_versions import OlderVersions

KEYS = ["data/a", "data/b", "data/c"]


@pytest.fixture
def lake() -> Iterator[str]:
    name = f"protecting-{uuid.uuid4().hex[:8]}"
    for key in KEYS:
        open_writer(f"memory://{name}/lake").put(key, b"x")
    yield f"memory://{name}/lake"
    forget_memory_store(name)


def group(lake: str, **columns: Any) -> pa.Table:
    found = [open_writer(lake).stat(key) for key in KEYS]
    usual = {"address": KEYS, "size": [item.size for item in found], "etag": [item.etag for item in found]}
    return pa.table({**usual, **columns})


def of(way: str, lake: str) -> Protect:
    found = protection(way, lake, f"{lake}/run")
    assert found is not None
    return found


def test_an_object_may_go_once_its_copy_is_there_and_not_otherwise(lake: str) -> None:
    protect, copies = of(QUARANTINE, lake), open_writer(quarantine_uri(f"{lake}/run"))
    assert protect(group(lake), lambda: False) == [Protected(ledger.FAILED, NOT_SENT)] * 3
    assert copies.list_level("data/").objects == []
    assert protect(group(lake), always) == [Protected()] * 3
    assert [copies.get(key) for key in KEYS] == [b"x"] * 3
    assert protection(OFF, lake, f"{lake}/run") is None


@pytest.mark.parametrize("columns", [{"size": [1, 2, 1]}, {"etag": ["f" * 32] * 2 + [None]}])
def test_an_object_that_is_not_as_it_was_listed_stays(columns: dict[str, Any], lake: str) -> None:
    odd = [
        number
        for number in range(3)
        if columns.get("size", [1] * 3)[number] == 2 or columns.get("etag", [None] * 3)[number]
    ]
    found = of(QUARANTINE, lake)(group(lake, **columns), always)
    assert [item.outcome for item in found] == [ledger.KEPT if number in odd else "" for number in range(3)]
    assert {item.code for item in found} == {NOT_COPIED, None}


def test_what_is_gone_counts_as_deleted_only_where_its_whole_copy_is_there(lake: str) -> None:
    copies = open_writer(quarantine_uri(f"{lake}/run"))
    rows = group(lake, address=["data/gone", "data/half", "data/whole"])
    copies.put("data/half", b"longer")
    copies.put("data/whole", b"x")
    found = of(QUARANTINE, lake)(rows, always)
    assert found[:2] == [Protected(ledger.MISSING)] * 2
    assert (found[2].outcome, found[2].code) == (ledger.DELETED, None)


def failing(error: DredgeError) -> Callable[..., None]:
    def write(*_: Any, **__: Any) -> None:
        raise error

    return write


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (UnavailableError("SlowDown"), ledger.FAILED, NOT_COPIED),
        (UnavailableError("InvalidObjectState"), ledger.FAILED, NOT_COPIED),
        (ConfigError("no such bucket"), ledger.FAILED, NOT_COPIED),
        (ConfigError("AccessDenied"), ledger.FAILED, "AccessDenied"),
        (ConfigError("InvalidObjectState"), ledger.KEPT, NOT_COPIED),
        (ConfigError("BlobArchived"), ledger.KEPT, NOT_COPIED),
        (FormatError("of another size"), ledger.KEPT, NOT_COPIED),
        (RefusedError("AccessDenied"), ledger.KEPT, NOT_COPIED),
        (NotFoundError("gone"), ledger.MISSING, None),
    ],
)
def test_what_lasts_keeps_the_object_and_what_may_pass_is_tried_again(
    error: DredgeError, outcome: str, code: str | None, lake: str, stand_in: Any
) -> None:
    stand_in(MemoryWriter.put_stream, failing(error))
    found = of(QUARANTINE, lake)(group(lake), always)
    message = None if outcome == ledger.MISSING else str(error)
    assert found == [Protected(outcome, code, message)] * 3


def test_versions_protect_a_whole_group_while_the_bucket_keeps_them(lake: str) -> None:
    store, protect = memory_store(lake.split("/")[2]), of(VERSIONS, lake)
    with pytest.raises(RefusedError):
        protect(group(lake), always)
    store.older = OlderVersions()
    assert protect(group(lake), always) == [Protected()] * 3
    store.older.suspended = True
    with pytest.raises(RefusedError):
        protect(group(lake), always)
