"""History, known snapshots, and rollback of the repo info."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError
from dredge.icechunk.expiration.apply import apply_edit
from dredge.icechunk.expiration.plan import Edit
from dredge.icechunk.format import metadata
from dredge.icechunk.format.metadata import COPIES, RepoInfo, SnapshotEntry, Update, micros
from dredge.icechunk.history import History
from dredge.icechunk.repository import (
    SNAPSHOTS,
    KnownSnapshots,
    _has_tag,
    check_not_rolled_back,
    newest_copies,
    read_history,
)
from dredge.storage import ObjectWriter, open_deleter, open_writer
from tests.support.icechunk import Graph, build, history_of, local_storage
from tests.support.memory_store import forget_memory_store

FORK = Graph(
    (("1", "0", 1), ("2", "1", 2), ("3", "1", 3), ("4", "3", 4)), {"main": "4", "side": "2"}, {"t": "1"}
)


@pytest.fixture
def history() -> History:
    return history_of(FORK, 2)


def entry(name: str, parent: str | None, time: int = 1, pruned: tuple[str, ...] = ()) -> SnapshotEntry:
    return SnapshotEntry(name, parent, time, "", pruned)


def test_a_missing_snapshot_is_told_whoever_walks(history: History) -> None:
    damaged = replace(history, snapshots={name: history.snapshots[name] for name in "0234"})
    with pytest.raises(FormatError, match="snapshot 3"):
        damaged.ancestry("4")
    with pytest.raises(FormatError, match="snapshot 1"):
        damaged.reachable()
    with pytest.raises(FormatError, match="snapshot 1"):
        damaged.check_links()


def test_a_cycle_is_told_whoever_walks() -> None:
    rounds = History(2, {"1": entry("1", "2"), "2": entry("2", "1")}, {"main": "1"}, {})
    with pytest.raises(FormatError, match="cycle"):
        rounds.ancestry("1")
    with pytest.raises(FormatError, match="cycle"):
        rounds.check_links()
    assert rounds.reachable() == {"1", "2"}


@pytest.mark.parametrize(("time", "is_newer"), [(9, False), (10, False), (11, True)])
def test_a_snapshot_is_newer_than_its_parent_or_there_is_no_expiring_by_time(
    time: int, is_newer: bool
) -> None:
    history = History(2, {"0": entry("0", None, 10), "1": entry("1", "0", time)}, {"main": "1"}, {})
    if is_newer:
        history.check()
        return
    with pytest.raises(RefusedError, match="snapshot 1"):
        history.check()
    replace(history, restamped=frozenset({"0"})).check()
    with pytest.raises(RefusedError):
        replace(history, restamped=frozenset({"1"})).check()


@pytest.mark.parametrize(
    "change",
    [
        {"spec_version": 1},
        {"branches": {"main": "4"}},
        {"branches": {"main": "4", "side": "3"}},
        {"tags": {"u": "1"}},
        {"snapshots": {"2": entry("2", "0")}},
        {"snapshots": {"2": entry("2", "1", pruned=("0",))}},
        {"snapshots": {"2": entry("2", "1", 7)}},
    ],
)
def test_histories_that_differ_in_anything_that_counts_have_other_digests(
    history: History, change: dict[str, object]
) -> None:
    history = replace(history, snapshots={**history.snapshots, "2": entry("2", "1")})
    if isinstance(snapshots := change.get("snapshots"), dict):
        change = {"snapshots": {**history.snapshots, **snapshots}}
    assert replace(history).digest == history.digest
    assert replace(history, **change).digest != history.digest  # type: ignore[arg-type]


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


NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://rollback-test/repo")
    forget_memory_store("rollback-test")


def copy(at: float, number: int = 0) -> str:
    digits = 32_503_680_000_000 - micros(NOW + at * SECOND) // 1000
    return f"repo.{digits:014d}.{number:019d}0"


def update(at: float, kind: str = "commit", backup: str | None = None) -> Update:
    return Update(kind, micros(NOW + at * SECOND), backup)


def info(*updates: Update, before: str | None = None) -> RepoInfo:
    return RepoInfo(2, (), {}, {}, "online", updates, before)


@pytest.fixture
def stored(writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, RepoInfo]:
    found: dict[str, RepoInfo] = {}

    def parse(_: bytes, key: str) -> RepoInfo:
        name = key.removeprefix(COPIES)
        if name not in found:
            raise FormatError(f"{key} is damaged")
        return found[name]

    monkeypatch.setattr(metadata, "parse_repo_info", parse)
    return found


def check(writer: ObjectWriter, current: RepoInfo, names: Iterable[str]) -> None:
    for name in names:
        writer.put(f"{COPIES}{name}", b"copy")
    check_not_rolled_back(writer, current, newest_copies(writer))


CURRENT = info(update(5, backup=copy(5)), update(3, "tag", copy(3)), before=copy(1))


@pytest.mark.parametrize(
    ("at", "kind", "is_later"),
    [
        (6, "commit", True),
        (5, "commit", False),
        (5, "tag", True),
        (3, "tag", False),
        (3, "commit", True),
        (2.9, "commit", False),
    ],
)
@pytest.mark.parametrize("made", [9, 3])
def test_a_copy_with_a_change_that_the_log_would_name_and_does_not_is_later(
    writer: ObjectWriter, stored: dict[str, RepoInfo], made: float, at: float, kind: str, is_later: bool
) -> None:
    stored[copy(made, 7)] = info(update(at, kind), update(0))
    if is_later:
        with pytest.raises(RefusedError, match=copy(made, 7)):
            check(writer, CURRENT, stored)
    else:
        check(writer, CURRENT, stored)


def test_a_copy_that_says_nothing_or_is_gone_meanwhile_does_not_hide_another(
    writer: ObjectWriter, stored: dict[str, RepoInfo]
) -> None:
    stored[copy(9)] = info()
    stored[copy(7)] = info(update(6))
    check(writer, CURRENT, [copy(9)])
    writer.put(f"{COPIES}{copy(7)}", b"copy")
    with pytest.raises(RefusedError):
        check_not_rolled_back(writer, CURRENT, [copy(10), copy(9), copy(7)])
