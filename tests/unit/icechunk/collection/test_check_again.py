"""Deleted objects that are live are restored, and raise an alarm."""

import os
import shutil
from pathlib import Path

import pytest

from dredge.errors import AlarmError, FormatError, RefusedError, WitnessError
from dredge.icechunk.collection import steps
from dredge.icechunk.collection.config import IcechunkPurgeConfig
from dredge.icechunk.collection.witness.judging import forget_lost
from dredge.icechunk.maintenance import open_state
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.storage import store_clock
from dredge.undo.alarms import acknowledge_alarms, read_alarms
from dredge.undo.pins import end_pin, read_pins
from tests.support.icechunk_past import Past


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path / "repo", 1)


def deleted_wrongly(past: Past, undo: str) -> str:
    past.commit()
    past.library.create_branch("job", past.tip())
    tip = past.commit("job")
    with past.put_back("refs"):
        past.library.delete_branch("job")
        assert past.collect(keep_lost_days=0, undo=undo)["deleted"]["objects"] > 3
    return tip


def test_live_files_that_a_run_deleted_come_back_and_a_person_must_look(past: Past) -> None:
    tip = deleted_wrongly(past, "quarantine")
    for _ in range(2):
        with pytest.raises(AlarmError):
            past.collect()
    assert past.read(tip, 2) == [2, 2]
    (alarm,) = read_alarms(past.state)
    assert dict(alarm.outcomes) == {"restored": alarm.objects}
    acknowledge_alarms(open_state(past.uri), past.uri, "a script removed the refs for a minute")
    assert past.collect()["outcome"] == "success"
    assert past.read(tip, 2) == [2, 2]


def test_chunks_that_a_run_deleted_come_back_where_only_they_are_missing(past: Past) -> None:
    tip = deleted_wrongly(past, "quarantine")
    (copies,) = (past.folder / "_dredge/runs").glob("*/quarantine")
    for kind in ("snapshots", "manifests", "transactions"):
        shutil.copytree(copies / kind, past.folder / kind, dirs_exist_ok=True)
    with pytest.raises(AlarmError):
        past.collect(dry_run=True)
    assert past.read(tip, 2) == [2, 2]
    (alarm,) = read_alarms(past.state)
    assert alarm.objects == 2


def test_what_cannot_come_back_is_an_alarm_too(past: Past) -> None:
    deleted_wrongly(past, "off")
    before = past.objects()
    with pytest.raises(AlarmError):
        past.collect()
    assert past.objects() == before


def test_what_no_run_deleted_is_damage_and_no_alarm(past: Past) -> None:
    tip = deleted_wrongly(past, "quarantine")
    shutil.rmtree(past.folder / "_dredge/deletions")
    with pytest.raises(FormatError):
        past.collect()
    assert read_alarms(past.state) == []
    assert tip not in past.objects()["snapshots"]


def test_nothing_is_deleted_while_an_alarm_is_open(past: Past) -> None:
    deleted_wrongly(past, "quarantine")
    with pytest.raises(AlarmError):
        past.collect()
    past.library.create_branch("other", past.tip())
    past.commit("other")
    past.library.delete_branch("other")
    before = past.objects()
    with pytest.raises(RefusedError):
        past.collect(keep_lost_days=0)
    assert past.objects() == before


def purge(past: Past) -> StepSummary:
    (copies,) = (past.folder / "_dredge/runs").glob("*/quarantine")
    config = IcechunkPurgeConfig(
        repository=past.uri, older_than_days=1, dry_run=False, run=copies.parent.name
    )
    return steps.purge(config, LocalRunner())


def age_copies(past: Past) -> set[Path]:
    copies = {path for path in (past.folder / "_dredge/runs").glob("*/quarantine/**/*") if path.is_file()}
    for path in copies:
        os.utime(path, (0, 0))
    assert copies
    return copies


def test_purge_after_a_wrong_deletion_leaves_the_only_copies(past: Past) -> None:
    tip = deleted_wrongly(past, "quarantine")
    copies = age_copies(past)
    for _ in range(2):
        with pytest.raises(AlarmError):
            purge(past)
    assert all(path.exists() for path in copies)
    assert past.read(tip, 2) == [2, 2]


def test_purge_leaves_copies_of_what_is_live(past: Past) -> None:
    tip = deleted_wrongly(past, "quarantine")
    with pytest.raises(AlarmError):
        past.collect()
    acknowledge_alarms(open_state(past.uri), past.uri, "seen")
    copies = age_copies(past)
    for pin in read_pins(past.state):
        end_pin(past.state, pin.pin_id, store_clock(past.state, ""))
    done = purge(past)
    assert (done.counts["purged_objects"], done.counts["live_objects"]) == (0, len(copies))
    assert all(path.exists() for path in copies)
    assert past.read(tip, 2) == [2, 2]


def test_purge_is_refused_while_refs_are_put_back(past: Past) -> None:
    past.commit()
    past.library.create_branch("job", past.tip())
    past.commit("job")
    past.library.delete_branch("job")
    past.collect(keep_lost_days=0, undo="quarantine")
    copies = age_copies(past)
    with past.put_back("refs"):
        past.commit()
        past.collect()
    with pytest.raises(WitnessError):
        purge(past)
    assert all(path.exists() for path in copies)
    forget_lost(past.uri, "wanted")
    assert purge(past).counts["purged_objects"] == len(copies)
