"""What a run says about itself at its end, and what the next one makes of a run that had none."""

from __future__ import annotations

import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.trash.state import TrashState
from tests.support.kv_world import DAY
from tests.support.trash import Ground, fates

# Runs that did not end


def test_what_a_killed_run_did_not_reach_is_not_remembered_as_removed(ground: Ground) -> None:
    """Its undo file names the rows; they are there, and may be named again at any time."""
    ground.scan()
    ground.world.store.now += DAY
    ground.killed(deletes=False)
    ground.name_orphan()
    ground.world.branch(ground.partition, "main", ground.head, ground.main)
    ground.clean(kinds=["marker"])
    assert ground.state.removed() == {}
    assert ground.state.open_run() is None


def test_a_run_is_open_until_what_it_removed_is_remembered(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.scan()
    ground.world.store.now += DAY
    run = ground.killed()
    with monkeypatch.context() as patch:
        patch.setattr(TrashState, "note_removed", away)
        with pytest.raises(UnavailableError):
            ground.clean()
    assert ground.state.open_run() == run
    ground.clean()
    assert ground.state.open_run() is None
    assert set(ground.state.removed()) == {ground.orphan}


def away(*_: object, **__: object) -> None:
    raise UnavailableError("gone")


# The end


@pytest.mark.parametrize("named", [False, True])
def test_what_was_removed_is_remembered_though_the_report_cannot_be_written(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """And the run stays open, to be verified. What is named is put back, and there is nothing to remember."""
    ground.scan()
    if named:
        ground.world.store.after_delete.append(ground.name_orphan)
    monkeypatch.setattr(TrashState, "save_report", away)
    with pytest.raises(UnavailableError):
        ground.clean(DAY)
    assert ground.state.open_run() is not None
    assert set(ground.state.removed()) == (set() if named else {ground.orphan})


@pytest.fixture
def handed_over(ground: Ground) -> dict[str, bytes]:
    """Three repositories that wait for the cleaner."""
    return {name: ground.world.hand_over(name) for name in ("aaa", "bbb", "ccc")}


def test_a_handed_over_repository_that_stays_makes_a_run_partial(
    ground: Ground, handed_over: dict[str, bytes]
) -> None:
    partition = handed_over["bbb"]
    ground.scan()
    ground.world.store.before_delete.append(lambda: ground.world.record(partition))
    report = ground.clean(DAY)
    assert [outcome.fate for outcome in report.deleted] == ["cleaned", "skipped", "cleaned"]
    assert report.status == "partial"
    assert partition not in ground.state.removed()
    assert fates(report) == ["deleted"]


def test_of_several_errors_one_that_passes_by_itself_decides(
    ground: Ground, handed_over: dict[str, bytes]
) -> None:
    errors = iter([ConfigError("denied"), UnavailableError("throttled")])

    def fail() -> None:
        ground.world.store.before_delete.append(fail)
        for error in errors:
            raise error

    ground.scan()
    ground.world.store.before_delete.append(fail)
    with pytest.raises(UnavailableError):
        ground.clean(DAY)
    assert ground.report()["status"] == "partial"
    assert ground.state.open_run() is not None
    assert ground.orphan_rows() == 0
