"""A copy of the repo info that knows more than the repo info does tells that an earlier one was put back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.icechunk import repository
from dredge.icechunk.format.repo_info import OVERWRITTEN, RepoInfo, Update
from dredge.icechunk.format.snapshots import micros
from dredge.icechunk.repository import check_not_rolled_back, newest_copies
from dredge.storage import ObjectWriter, open_writer
from tests.support.memory_store import forget_memory_store

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
    return RepoInfo(2, (), {}, {}, (), "online", updates, before)


@pytest.fixture
def stored(writer: ObjectWriter, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, RepoInfo]:
    found: dict[str, RepoInfo] = {}

    def parse(_: bytes, key: str) -> RepoInfo:
        name = key.removeprefix(OVERWRITTEN)
        if name not in found:
            raise FormatError(f"{key} is damaged")
        return found[name]

    monkeypatch.setattr(repository, "parse_repo_info", parse)
    return found


def check(writer: ObjectWriter, current: RepoInfo, names: Iterable[str]) -> None:
    for name in names:
        writer.put(f"{OVERWRITTEN}{name}", b"copy")
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
    writer.put(f"{OVERWRITTEN}{copy(7)}", b"copy")
    with pytest.raises(RefusedError):
        check_not_rolled_back(writer, CURRENT, [copy(10), copy(9), copy(7)])
