"""A try of the report that was taken for lost and wakes gives way to a later one, which knows more."""

from typing import Any

import pytest

from dredge.errors import OvertakenError, UnavailableError
from dredge.gc.run import Run
from dredge.gc.save_report import step
from dredge.gc.steps import bulk_delete, run_steps, save_report
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tries import StepTry
from tests.support.gc import busy_world, stage_again, summary_of
from tests.support.tries import HERE, come_to, driver, undo


def test_who_falls_asleep_among_the_files_of_a_report_leaves_a_later_report_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The files with what was deleted may be many, and whoever writes them is taken for lost meanwhile."""
    world, _, _ = busy_world()
    orphan = world.marked()
    bulk_delete(orphan, HERE)
    retry = driver(world, orphan)
    honest, left = step.write_deleted, [lambda: world.run(retry)]
    names = step.REPORT, step.PAGE, step.SUMMARY
    written: dict[str, bytes] = {}

    def slow(folder: RunFolder, attempt: StepTry) -> list[PartInfo]:
        parts = honest(folder, attempt)
        if left:
            left.pop()()
            written.update((name, folder.writer.get(name)) for name in names)
        return parts

    monkeypatch.setattr(step, "write_deleted", slow)
    with pytest.raises(OvertakenError, match="step save_report"):
        step.write_report(orphan)
    assert {name: retry.folder.writer.get(name) for name in names} == written
    assert (
        retry.folder.read_json(step.REPORT)["outcome"] == "success"
    )  # the earlier one knew no verified sweep


def test_an_orphan_that_read_what_was_done_again_since_tells_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It read that all was complete, and slept before it wrote; a person had the marks done again meanwhile."""
    world, _, gone = busy_world()
    orphan = world.collected(dry_run=True)
    retry = driver(world, orphan)

    def again(_: Run) -> None:
        monkeypatch.undo()
        stage_again(world, min(gone), size_bytes=2)
        undo(retry, "mark_uncommitted")
        run_steps(retry, HERE)
        save_report(retry)

    monkeypatch.setattr(step, "write_analysis", again)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    told = retry.folder.read_json(step.REPORT)
    assert told["counts"]["deletable_objects"] == len(gone) - 1
    assert summary_of(retry, "save_report").counts["deletable_objects"] == len(gone) - 1


@pytest.mark.parametrize("asleep_after", ["_complete", "compact_index"])
def test_an_orphan_that_wakes_after_the_end_of_its_run_leaves_the_lease_to_the_next(
    monkeypatch: pytest.MonkeyPatch, asleep_after: str
) -> None:
    """It had read that all was complete, or united the index, and slept. The later try could not remove old files,
    which is no failure; who wakes would do that, and would hold the right that was given back until it expires."""
    world, _, _ = busy_world()
    orphan = world.plan()
    come_to(orphan, "state")
    retry = driver(world, orphan)
    honest = getattr(step, asleep_after)

    def asleep(*arguments: Any) -> Any:
        found = honest(*arguments)
        monkeypatch.undo()
        with monkeypatch.context() as without:
            without.setattr(step, "clean_up", lambda *_: None)
            world.run(retry)
        return found

    monkeypatch.setattr(step, asleep_after, asleep)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    world.collect()


@pytest.mark.parametrize("lost", [step.REPORT, step.PAGE, step.SUMMARY])
def test_a_report_without_one_of_its_files_is_no_result(lost: str) -> None:
    class Refused(StepTry):
        def replace(self, key: str, data: bytes) -> None:
            if key == lost:
                raise UnavailableError(key)
            super().replace(key, data)

    world, _, _ = busy_world()
    run = world.collected(dry_run=True)
    number = StepTry.claim(run.folder.writer, "save_report").number
    with pytest.raises(UnavailableError, match=lost):
        step.write_report(run, attempt=Refused(run.folder.writer, "save_report", number))
    assert run.folder.read_summary("save_report") is None
