"""Numbers of tries: one each, growing, and the last one alone counts."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.errors import (
    ConflictError,
    DefectError,
    FormatError,
    OvertakenError,
    RefusedError,
    UnavailableError,
)
from dredge.runs.folder import FAILED, RunFolder
from dredge.runs.payload import StepSummary
from dredge.runs.run import StepRecord, perform
from dredge.runs.tries import StepTry
from dredge.storage import ObjectWriter, open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://tries-test/r1")
    forget_memory_store("tries-test")


@pytest.fixture
def folder(writer: ObjectWriter) -> RunFolder:
    return RunFolder(writer, "r1")


def clock() -> datetime:
    return NOW


def summary(attempt: StepTry, **counts: int) -> StepSummary:
    return StepSummary("s", "r1", "success", NOW, NOW, counts, try_number=attempt.number)


def test_a_claim_whose_answer_was_lost_fences_itself_off_only(writer: ObjectWriter) -> None:
    class Deaf:
        uri = writer.uri
        open_read, put_if_match = writer.open_read, writer.put_if_match

        def put_if_absent(self, key: str, data: bytes) -> None:
            writer.put_if_absent(key, data)
            raise ConflictError("was there")

    assert StepTry.claim(Deaf(), "s").number == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"try": "x"}'])
def test_a_damaged_number_is_not_taken_for_none(writer: ObjectWriter, data: bytes) -> None:
    writer.put("s/_try.json", data)
    with pytest.raises(FormatError):
        StepTry.claim(writer, "s")
    with pytest.raises(FormatError):
        StepTry(writer, "s", 1).check()


def test_only_the_newest_try_publishes(folder: RunFolder) -> None:
    old, new = StepTry.claim(folder.writer, "s"), StepTry.claim(folder.writer, "s")
    assert (old.is_newest(), new.is_newest()) == (False, True)
    old.publish("guard.json", {"verdict": "passed"})  # where nothing is; it gives way
    new.publish("guard.json", {"verdict": "refused"})
    with pytest.raises(OvertakenError):
        old.publish("guard.json", {"verdict": "passed"})
    with pytest.raises(OvertakenError):
        folder.write_summary(summary(old, a=1))
    folder.write_summary(summary(new, a=2))
    with pytest.raises(OvertakenError):
        folder.write_failure("s", RefusedError("late"), NOW, old)
    assert folder.read_json("guard.json") == {"verdict": "refused", "try_number": 2}
    found = folder.read_summary("s")
    assert found is not None
    assert (found.counts, folder.read_failure("s")) == ({"a": 2}, None)


@pytest.mark.parametrize("moment", ["put_if_absent", "open_read", "put_if_match"])
def test_what_a_try_published_between_the_look_and_the_put_gives_way(
    writer: ObjectWriter, moment: str
) -> None:
    orphan = StepTry.claim(writer, "s")
    if moment != "put_if_absent":
        orphan.publish("x.json", {"of": "orphan, before"})
    later: list[StepTry] = []

    class Slow:
        def __getattr__(self, name: str) -> object:
            def call(key: str, *arguments: object) -> object:
                if (name, key) == (moment, "x.json") and not later:
                    later.append(StepTry.claim(writer, "s"))
                    later[0].publish("x.json", {"of": "later"})
                return getattr(writer, name)(key, *arguments)

            return writer.uri if name == "uri" else call

    with pytest.raises(OvertakenError):
        StepTry(Slow(), "s", orphan.number).publish("x.json", {"of": "orphan"})  # type: ignore[arg-type]
    assert later
    assert json.loads(writer.get("x.json")) == {"of": "later", "try_number": 2}


def test_what_a_later_try_wrote_right_before_the_orphan_looks_is_not_replaced(writer: ObjectWriter) -> None:
    orphan = StepTry.claim(writer, "s")
    orphan.replace("page.html", b"first")
    later: list[StepTry] = []

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(writer, name)

        def open_read(self, key: str) -> object:
            if key == "page.html" and not later:
                later.append(StepTry.claim(writer, "s"))
                later[0].replace(key, b"of the later one")
            return writer.open_read(key)

    with pytest.raises(OvertakenError):
        StepTry(Slow(), "s", orphan.number).replace("page.html", b"of the orphan")  # type: ignore[arg-type]
    assert writer.get("page.html") == b"of the later one"


def test_what_others_change_all_the_time_is_told_and_not_taken_for_written(writer: ObjectWriter) -> None:
    class Losing:
        def __getattr__(self, name: str) -> object:
            return getattr(writer, name)

        def put_if_absent(self, key: str, data: bytes) -> None:
            raise ConflictError("no")

    losing = StepTry(Losing(), "s", StepTry.claim(writer, "s").number)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError):
        losing.publish("guard.json", {"verdict": "passed"})
    with pytest.raises(UnavailableError):
        losing.replace("page.html", b"mine")


def test_a_summary_that_slipped_in_before_a_later_claim_is_no_result(folder: RunFolder) -> None:
    orphan = StepTry.claim(folder.writer, "s")
    folder.write_summary(summary(orphan, a=1))
    later = StepTry.claim(folder.writer, "s")
    assert folder.read_summary("s") is None
    folder.write_summary(summary(later, a=2))
    found = folder.read_summary("s")
    assert found is not None
    assert found.counts == {"a": 2}


def test_a_try_that_is_overtaken_while_it_writes_its_summary_is_told_so(folder: RunFolder) -> None:
    orphan = StepTry.claim(folder.writer, "s")

    class Overtaken:
        uri = folder.uri
        stat, get = folder.writer.stat, folder.writer.get

        def put_if_absent(self, key: str, data: bytes) -> None:
            StepTry.claim(folder.writer, "s")
            folder.writer.put_if_absent(key, data)

    with pytest.raises(OvertakenError):
        RunFolder(Overtaken(), "r1").write_summary(summary(orphan))  # type: ignore[arg-type]
    assert folder.read_summary("s") is None


def test_a_task_that_is_still_at_work_replaces_nothing_of_its_repetition(folder: RunFolder) -> None:
    attempt = StepTry.claim(folder.writer, "s").named
    lost, repeated = (RunFolder.of_task(folder.uri, folder.run_id, attempt) for _ in range(2))
    taken = repeated.write_table("s", 0, ROWS)
    other = lost.write_table("s", 0, ROWS.slice(1))  # the world has moved on between their looks
    assert taken.name == other.name
    assert folder.read_part(taken).equals(ROWS)


def test_a_step_that_may_not_go_on_claims_no_try(folder: RunFolder) -> None:
    def right() -> None:
        raise RefusedError("the lease is lost")

    newest = StepTry.claim(folder.writer, "s")
    with pytest.raises(RefusedError):
        perform(folder, "s", [], lambda record: None, clock, right)
    newest.check()
    failure = folder.read_failure("s")
    assert failure is not None
    assert (failure["try_number"], failure["claimed"]) == (1, False)
    folder.write_failure("s", UnavailableError("busy"), NOW, newest)
    with pytest.raises(RefusedError):
        perform(folder, "s", [], lambda record: None, clock, right)
    failure = folder.read_failure("s")
    assert failure is not None
    assert failure["message"] == "busy"  # of a try that was begun


def test_an_error_that_nobody_foresaw_ends_a_step_as_a_defect(folder: RunFolder) -> None:
    def body(record: StepRecord) -> None:
        {}["a range"]

    with pytest.raises(DefectError) as caught:
        perform(folder, "s", [], body, clock)
    assert isinstance(caught.value.__cause__, KeyError)
    failure = folder.read_failure("s")
    assert failure is not None
    assert failure["kind"] == "defect"
    assert failure["traceback"][-1] == "KeyError"


def test_a_defect_shows_no_secret(folder: RunFolder) -> None:
    def body(record: StepRecord) -> None:
        raise RuntimeError("GET https://s3/x?X-Amz-Signature=abcdef&password=hunter2")

    with pytest.raises(DefectError):
        perform(folder, "s", [], body, clock)
    text = folder.writer.get(f"s/{FAILED}").decode()
    assert "abcdef" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), SystemExit(1)])
def test_a_machine_at_its_end_and_a_wish_to_stop_are_no_defects(
    folder: RunFolder, error: BaseException
) -> None:
    def body(record: StepRecord) -> None:
        raise error

    with pytest.raises(type(error)):
        perform(folder, "s", [], body, clock)
