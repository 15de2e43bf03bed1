"""Undo files: all of it is there before anything goes, and nothing else comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dredge.errors import ConflictError, FormatError
from dredge.kv.rows import Row
from dredge.storage import ObjectWriter, open_writer
from dredge.trash.undo import UndoLog, decode_rows, encode_rows, put_back
from tests.support.kv_world import memory_store
from tests.support.memory_store import forget_memory_store

ROWS = [Row(b"p\xff", b"k\n", b"v\x00"), Row(b"p", b"k2", b""), Row(b"q", b"k", b"v")]


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://trash-undo")
    forget_memory_store("trash-undo")


def test_a_log_that_is_opened_again_goes_on_behind_its_files(writer: ObjectWriter) -> None:
    log = UndoLog(writer, "runs/b/undo")
    log.write(ROWS[:1])
    writer.put("runs/b/undo/notes.txt", b"not rows")
    again = UndoLog(writer, "runs/b/undo")
    again.write(ROWS[1:])
    assert list(again.read()) == ROWS
    assert again.files == 2
    with pytest.raises(ConflictError):
        log.write(ROWS[:1])  # a file of the other one is never replaced


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"partition": "cA==", "key": "aw=="}', b"null"])
def test_a_damaged_line_is_told_with_its_number(damage: bytes) -> None:
    data = encode_rows(ROWS[:1]) + damage + b"\n"
    with pytest.raises(FormatError):
        list(decode_rows(data, "name"))


def test_a_row_whose_bytes_were_damaged_does_not_come_back_as_another() -> None:
    data = encode_rows(ROWS[2:]).replace(b'"dg=="', b'"d*g=="')
    with pytest.raises(FormatError):
        list(decode_rows(data, "name"))


def test_what_exists_is_counted_and_stays() -> None:
    store = memory_store()
    assert store.insert_row(ROWS[0]._replace(value=b"newer"))
    assert put_back(store, ROWS) == (2, 1)
    assert store.all_rows() == {ROWS[0]._replace(value=b"newer"), *ROWS[1:]}
