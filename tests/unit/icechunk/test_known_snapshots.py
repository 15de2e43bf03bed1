"""Parents that an earlier reading knew are believed only while their files are those that it read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError, NotFoundError
from dredge.icechunk.expiration.in_place import apply_edit
from dredge.icechunk.expiration.plan import Edit
from dredge.icechunk.history import History
from dredge.icechunk.repository import SNAPSHOTS, KnownSnapshots, _has_tag, read_history
from dredge.storage import open_deleter, open_writer
from tests.support.icechunk import Graph, build, local_storage

LINE = Graph((("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0), ("4", "1", 4.0)), {"main": "3", "side": "4"})


class Counted:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.read: list[str] = []
        self.then: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list(self, prefix: str, **given: Any) -> Any:
        found = list(self.inner.list(prefix, **given))
        if prefix == SNAPSHOTS:
            self.then()
        return found

    def get(self, key: str) -> Any:
        self.read.append(key.removeprefix(SNAPSHOTS))
        return self.inner.get(key)


class Line:
    def __init__(self, folder: Path) -> None:
        self.ids = build(local_storage(folder), LINE, 1, chunks=False)
        self.writer = open_writer(f"file://{folder}")
        self.reader: Any = Counted(self.writer)
        self.known = KnownSnapshots()

    def names(self, found: Any) -> set[str]:
        names = {node: name for name, node in self.ids.items()}
        return {names.get(node, node) for node in found}

    def again(self) -> tuple[set[str], History]:
        self.reader.read = []
        history = read_history(self.reader, known=self.known)
        return self.names(self.reader.read), history

    def edit(self, snapshot: str, old: str, new: str) -> None:
        assert apply_edit(self.writer, Edit(self.ids[snapshot], self.ids[old], self.ids[new]))

    def main(self, history: History) -> list[str]:
        names = {node: name for name, node in self.ids.items()}
        return [names[node] for node in history.ancestry(history.branches["main"])]


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


def test_what_is_as_it_was_is_not_read_again(line: Line) -> None:
    read, first = line.again()
    assert read == line.names(line.known.entries) == {"0", "1", "2", "3", "4"}
    assert len(line.reader.read) == len({*line.reader.read})
    read, second = line.again()
    assert read == set()
    assert second.digest == first.digest == read_history(line.writer).digest


def test_a_snapshot_that_was_edited_is_read_again_and_no_other(line: Line) -> None:
    line.again()
    line.edit("3", "2", "0")
    read, history = line.again()
    assert read == {"3"}
    assert line.main(history) == ["3", "0"]
    assert line.names(line.known.entries) == {"0", "1", "2", "3", "4"}
    assert line.again()[0] == set()


def test_a_snapshot_that_was_put_back_is_read_again(line: Line) -> None:
    key = SNAPSHOTS + line.ids["3"]
    before = line.writer.get(key)
    line.edit("3", "2", "0")
    line.again()
    line.writer.put(key, before)
    read, history = line.again()
    assert read == {"3"}
    assert line.main(history) == ["3", "2", "1", "0"]


def test_what_was_replaced_after_it_was_listed_is_used_and_not_known(line: Line) -> None:
    line.reader.then = lambda: line.edit("3", "2", "0")
    _, history = line.again()
    assert line.main(history) == ["3", "0"]
    assert line.names(line.known.entries) == {"0", "1", "2", "4"}
    line.reader.then = lambda: None
    assert line.again()[0] == {"3"}


def test_what_went_after_it_was_listed_matters_only_where_a_path_leads(line: Line) -> None:
    open_deleter(line.writer.uri).delete(["refs/branch.side/ref.json"])
    line.reader.then = lambda: list(open_deleter(line.writer.uri).delete([SNAPSHOTS + line.ids["4"]]))
    _, history = line.again()
    assert line.main(history) == ["3", "2", "1", "0"]
    assert line.ids["4"] not in line.known.entries


def test_what_cannot_be_read_matters_only_where_a_path_leads(line: Line) -> None:
    real = line.reader.get

    def archived(key: str) -> Any:
        if key == SNAPSHOTS + line.ids["4"]:
            raise ConfigError("InvalidObjectState")
        return real(key)

    line.reader.get = archived  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="InvalidObjectState"):
        line.again()
    open_deleter(line.writer.uri).delete(["refs/branch.side/ref.json"])
    _, history = line.again()
    assert line.main(history) == ["3", "2", "1", "0"]
    assert line.names(line.known.entries) == {"0", "1", "2", "3"}


def test_a_tag_is_of_bytes_that_it_was_made_from_or_of_a_file_that_still_has_it() -> None:
    asked: list[str] = []

    def stat(key: str) -> Any:
        asked.append(key)
        if key == "gone":
            raise NotFoundError(key)
        return SimpleNamespace(etag="t1")

    reader: Any = SimpleNamespace(stat=stat)
    made = hashlib.md5(b"data", usedforsecurity=False).hexdigest()
    assert not _has_tag(reader, "x", b"data", None)
    assert _has_tag(reader, "x", b"data", made)
    assert asked == []
    assert _has_tag(reader, "x", b"data", "t1")
    assert not _has_tag(reader, "x", b"data", "t0")
    assert not _has_tag(reader, "gone", b"data", "t1")
