"""Run folders: a part is what was written or an error, and a step is done when its summary says so."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.errors import FormatError, OvertakenError, RefusedError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.payload import PartInfo, StepSummary, from_json, from_sealed, to_json
from dredge.runs.run import StepRecord, perform
from dredge.runs.tries import StepTry
from dredge.storage import open_deleter, open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = pa.table({"address": ["a", "b,c", ""], "hash": pa.array([1, 2, 2**64 - 1], pa.uint64())})


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://folder-test/runs/r1"), "r1")
    forget_memory_store("folder-test")


def clock() -> datetime:
    return NOW


def test_parts_come_back_as_they_were(folder: RunFolder) -> None:
    part = folder.write_table("listing", 3, ROWS)
    assert part.name == "listing/part-00003.parquet"
    assert part.rows == 3
    assert folder.read_part(part).equals(ROWS)
    assert folder.read_part(part, ["hash"]).column_names == ["hash"]
    assert folder.read_part(part, ["hash", "address"]).column_names == ["hash", "address"]
    with pytest.raises(FormatError):
        folder.read_part(part, ["address", "another"])
    assert from_json(PartInfo, to_json(part)) == part


@pytest.mark.parametrize("damage", ["gone", "short", "flipped", "other rows", "other values"])
def test_a_part_that_is_not_what_was_written_is_refused(folder: RunFolder, damage: str) -> None:
    part = folder.write_table("listing", 0, ROWS)
    data = folder.writer.get(part.name)
    if damage == "gone":
        open_deleter(folder.uri).delete([part.name])
    elif damage == "short":
        folder.writer.put(part.name, data[:-1])
    elif damage == "flipped":
        folder.writer.put(part.name, data[:9] + bytes([data[9] ^ 1]) + data[10:])
    elif damage == "other rows":
        folder.write_table("listing", 0, ROWS.slice(0, 2))
    else:  # as long, and only its digest tells
        other = folder.write_table("listing", 0, ROWS.set_column(0, "address", [["z", "b,c", ""]]))
        assert (other.size_bytes, other.rows) == (part.size_bytes, part.rows)
    with pytest.raises(FormatError):
        folder.read_part(part)


def test_outside_of_a_try_files_lie_under_their_own_names(folder: RunFolder) -> None:
    task = RunFolder.of_task(folder.uri, "r1", None)
    assert (task.attempt, task.label) == (None, "r1")
    assert task.write_table("listing", 0, ROWS).key == f"listing/part-00000-{task.call}.parquet"
    task.publish_json("report.json", {"a": 1})
    assert folder.read_json("report.json") == {"a": 1}
    summary = StepSummary("listing", "r1", "success", NOW, NOW)
    task.write_summary(summary)
    assert from_sealed(StepSummary, folder.read_json("listing/_SUCCESS.json")) == summary


def do(folder: RunFolder, step: str, inputs: list[str], value: int = 1) -> StepSummary:
    def body(record: StepRecord) -> None:
        done.append(step)
        record.add(value=value)

    return perform(folder, step, inputs, body, clock)


done: list[str] = []


def test_a_step_without_its_input_is_refused(folder: RunFolder) -> None:
    with pytest.raises(RefusedError):
        do(folder, "second", ["first"])


def test_a_damaged_summary_is_an_error_not_an_absence(folder: RunFolder) -> None:
    do(folder, "first", [])
    folder.writer.put("first/_SUCCESS.json", b'{"step": "first"}')
    with pytest.raises(FormatError):
        folder.read_summary("first")


@pytest.mark.parametrize("status", ["awaiting_approval", "refused", "partial"])
def test_a_held_or_partial_step_is_not_complete(folder: RunFolder, status: str) -> None:
    def body(record: StepRecord) -> None:
        record.status = status  # type: ignore[assignment]
        record.error = RefusedError("not yet")

    with pytest.raises(RefusedError):
        perform(folder, "first", [], body, clock)
    assert folder.read_summary("first") is None
    incomplete = folder.read_incomplete("first")
    assert incomplete is not None
    assert incomplete.status == status
    with pytest.raises(RefusedError):
        do(folder, "second", ["first"])


def claim(folder: RunFolder) -> StepTry:
    return StepTry.claim(folder.writer, "s")


def complete_step(folder: RunFolder, attempt: StepTry) -> StepSummary:
    summary = StepSummary("s", "r1", "success", NOW, NOW, try_number=attempt.number)
    folder.write_summary(summary)
    return summary


def test_a_try_that_was_overtaken_tells_no_failure(folder: RunFolder) -> None:
    orphan = claim(folder)
    claim(folder)
    with pytest.raises(OvertakenError):
        folder.write_failure("s", UnavailableError("late"), NOW, orphan)
    assert folder.read_failure("s") is None


def test_damage_is_met_until_the_step_is_done(folder: RunFolder) -> None:
    assert folder.read_damage("s") is None
    folder.write_failure("s", UnavailableError("busy"), NOW, claim(folder))
    assert folder.read_damage("s") is None
    attempt = claim(folder)
    folder.write_failure("s", FormatError("part-0 is gone"), NOW, attempt)
    assert folder.read_damage("s") == "part-0 is gone"
    complete_step(folder, attempt)
    assert folder.read_damage("s") is None


def test_what_other_folders_have_is_read_once_by_a_process_with_several_steps(folder: RunFolder) -> None:
    part = folder.write_table("listing", 0, ROWS)
    with cache_parts(BY_DIGEST):
        assert folder.read_part(part).equals(ROWS)
        open_deleter(folder.uri).delete([part.name])
        assert folder.read_part(part).equals(ROWS)
    with pytest.raises(FormatError):
        folder.read_part(part)


def test_bytes_that_are_not_those_that_were_written_are_not_kept(folder: RunFolder) -> None:
    part = folder.write_table("listing", 0, ROWS)
    data = folder.writer.get(part.name)
    with cache_parts(BY_DIGEST):
        folder.writer.put(part.name, data[:-1])
        with pytest.raises(FormatError):
            folder.read_part(part)
        folder.writer.put(part.name, data)
        assert folder.read_part(part).equals(ROWS)
