"""Since when snapshots have been unreachable is replaced only by who has looked last and may still work."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dredge.errors import ConfigError, ConflictError, LeaseHeldError, OvertakenError
from dredge.icechunk.collection.mark.unreachable import (
    UNREACHABLE,
    Unreachable,
    read_unreachable,
    write_unreachable,
)
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import release_lease
from dredge.runs.tries import StepTry
from dredge.storage import ObjectWriter, open_writer
from tests.support.icechunk_repo import Repo

AT = datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC)


@pytest.fixture
def state() -> ObjectWriter:
    return open_writer(f"memory://unreachable-{uuid.uuid4().hex}")


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


def claim(run: Run) -> StepTry:
    return StepTry.claim(run.folder.writer, "mark")


def test_nothing_was_seen_where_nobody_has_looked(state: ObjectWriter) -> None:
    assert read_unreachable(state) == Unreachable({}, None)


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"{}", b'{"dead": []}', b'{"dead": {"A": "yesterday"}}', b'{"dead": {"A": 1}}']
)
def test_from_what_cannot_be_read_nothing_is_taken_and_it_can_be_replaced(
    state: ObjectWriter, data: bytes
) -> None:
    state.put(UNREACHABLE, data)
    found = read_unreachable(state)
    assert found == Unreachable({}, state.stat(UNREACHABLE).etag)
    assert found.etag


def test_what_may_not_even_be_looked_at_is_said_so_as_nobody_could_replace_it(
    state: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise ConfigError("no right to look at it")

    state.put(UNREACHABLE, b'{"dead": {}}')
    monkeypatch.setattr(type(state), "stat", denied)
    with pytest.raises(ConfigError):
        read_unreachable(state)


def test_store_that_gives_no_tag_is_not_taken_for_one_that_has_no_record(
    state: ObjectWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.put(UNREACHABLE, b'{"dead": {}}')
    real = type(state).stat
    monkeypatch.setattr(type(state), "stat", lambda self, key: replace(real(self, key), etag=None))
    assert read_unreachable(state) == Unreachable({}, "")


def test_what_was_seen_is_told_to_the_next_run_which_replaces_it(run: Run) -> None:
    run.state.put(UNREACHABLE, b'{"dead": {}}')
    write_unreachable(run, claim(run), {"B": AT, "A": AT}, read_unreachable(run.state).etag)
    found = read_unreachable(run.state)
    assert found.since == {"A": AT, "B": AT}
    write_unreachable(run, claim(run), {"C": AT}, found.etag)
    assert read_unreachable(run.state).since == {"C": AT}


@pytest.mark.parametrize("was_there", [True, False])
def test_look_that_is_older_than_another_replaces_nothing(run: Run, was_there: bool) -> None:
    etag = None
    if was_there:
        run.state.put(UNREACHABLE, b'{"dead": {}}')
        etag = read_unreachable(run.state).etag
    else:
        assert read_unreachable(run.state).etag is None
    attempt = claim(run)
    run.state.put(UNREACHABLE, b'{"dead": {"B": "2026-05-01T00:00:00+00:00"}}')
    with pytest.raises(ConflictError):
        write_unreachable(run, attempt, {"A": AT}, etag)
    assert read_unreachable(run.state).since.keys() == {"B"}


def test_try_that_was_overtaken_writes_nothing_and_says_so(run: Run) -> None:
    orphan = claim(run)
    claim(run)
    with pytest.raises(OvertakenError):
        write_unreachable(run, orphan, {"A": AT}, None)
    assert read_unreachable(run.state) == Unreachable({}, None)


def test_run_without_the_lease_writes_nothing(run: Run) -> None:
    attempt = claim(run)
    release_lease(run)
    with pytest.raises(LeaseHeldError):
        write_unreachable(run, attempt, {"A": AT}, None)
    assert read_unreachable(run.state) == Unreachable({}, None)


def test_try_that_is_overtaken_while_it_writes_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan, checked = claim(run), list[int]()
    real = StepTry.check

    def check(self: StepTry) -> None:
        if checked:
            claim(run)
        checked.append(1)
        real(self)

    monkeypatch.setattr(StepTry, "check", check)
    run.state.put(UNREACHABLE, b'{"dead": {}}')
    with pytest.raises(OvertakenError):
        write_unreachable(run, orphan, {"A": AT}, None)
