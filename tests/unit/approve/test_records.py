"""What is asked and answered is written once."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.approve import records
from dredge.approve.records import AIRFLOW, is_rejected, read_asked, record_answer, request_of
from dredge.errors import FormatError, RejectedError
from dredge.gc.approve import ApproveOutput, answer, approve, find_question
from dredge.gc.check_limits import CheckLimitsOutput
from tests.support.approvals import change, said, waiting_run
from tests.support.gc import summary_of
from tests.support.memory_store import MemoryReader, MemoryWriter


def test_everybody_with_a_name_may_approve_or_those_alone_whom_airflow_knows_by_theirs() -> None:
    _, run, _, _ = waiting_run()
    open_to_all = find_question(run).request
    closed = replace(open_to_all, approvers=("ada", "bob"))
    some = [(by, through) for by in ("", "ada", "eve") for through in (AIRFLOW, ApproveOutput.COMMAND)]
    assert [who for who in some if open_to_all.may_approve(*who)] == some[2:]
    assert [who for who in some if closed.may_approve(*who)] == [("ada", AIRFLOW)]


def test_a_yes_counts_as_long_as_it_could_be_waited_for_and_no_longer_than_the_mark() -> None:
    _, run, _, _ = waiting_run(approval_hours=3)
    request, mark = find_question(run).request, timedelta(hours=run.plan.config.safety.mark_age_hours_max)
    assert request.sweep_until == run.plan.created_at + mark
    assert request.answer_until == request.asked_at + timedelta(hours=3)
    given = request.asked_at + timedelta(hours=1)
    assert request.expires_at(given) == given + timedelta(hours=3)
    assert request.expires_at(request.sweep_until - timedelta(hours=1)) == request.sweep_until
    later = run.plan.created_at + timedelta(hours=11)
    guards = CheckLimitsOutput.of(summary_of(run, "check_limits"))
    assert request_of(run, request.subject, guards, "", later).answer_until == request.sweep_until


def test_a_no_to_any_question_of_the_run_is_a_no_and_that_to_this_one_is_told() -> None:
    _, run, _, _ = waiting_run()
    asked = find_question(run)
    assert (asked.answer, is_rejected(run)) == (None, False)
    yes = said(run).approved
    writer = run.folder.writer
    (place,) = {
        key.rpartition("/")[0]
        for batch in writer.list("approve/")
        for key in batch["key"].to_pylist()
        if "/" in key[8:]
    }
    said(run, "rejected", by="eve")
    writer.put("approve/0/rejected.json", writer.get(f"{place}/rejected.json").replace(b"eve", b"bob"))
    found = read_asked(run, asked.request.subject)
    assert found is not None
    assert found.approved == yes
    assert found.rejected is not None
    assert (found.answer, found.rejected.by) == (found.rejected, "eve")
    assert is_rejected(run)


def test_a_question_about_something_else_than_its_name_says_is_none() -> None:
    _, run, _, _ = waiting_run()
    subject = find_question(run).request.subject
    assert read_asked(run, {**subject, "candidates": "others"}) is None
    change(run, "request", candidates="others")
    with pytest.raises(FormatError):
        read_asked(run, subject)


def test_who_says_no_while_the_yes_is_read_is_heard_by_this_look_or_the_next(stand_in: Any) -> None:
    """The yes is read first: otherwise a no could be missed that stood before the yes was looked at."""
    _, run, _, _ = waiting_run()
    said(run)
    subject, said_no = find_question(run).request.subject, list[bool]()

    def get(honest: Any, reader: object, key: str) -> bytes:
        found: bytes = honest(reader, key)
        if key.endswith("/approved.json") and not said_no:
            said_no.append(True)
            said(run, "rejected", by="eve")
        return found

    stand_in(MemoryReader.get, get)
    asked = read_asked(run, subject)
    assert asked is not None
    assert asked.rejected is not None


def test_an_answer_whose_receipt_was_lost_stands(stand_in: Any) -> None:
    """The client sends the put again, and meets what its first request wrote."""
    _, run, _, _ = waiting_run()

    def twice(honest: Any, writer: object, key: str, data: bytes) -> object:
        honest(writer, key, data)
        return honest(writer, key, data)

    stand_in(MemoryWriter.put_if_absent, twice)
    found = answer(run, "approved", "ada", AIRFLOW)
    assert found.approved is not None
    assert found.approved.by == "ada"


def test_a_damaged_no_is_a_no() -> None:
    """Whatever it says, somebody wrote it; and nothing is deleted because bytes cannot be read."""
    world, run, kept, gone = waiting_run()
    said(run)
    said(run, "rejected", by="eve")
    change(run, "rejected", decision="approved")
    with pytest.raises(RejectedError):
        approve(run)
    change(run, "rejected", by=7)
    with pytest.raises(FormatError):
        approve(run)
    assert world.data() == kept | gone


@pytest.mark.parametrize("left", ["nothing", "the question"])
def test_a_record_that_is_gone_as_soon_as_it_was_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    _, run, _, _ = waiting_run()
    asked = find_question(run)
    guards = CheckLimitsOutput.of(summary_of(run, "check_limits"))
    monkeypatch.setattr(records, "read_asked", lambda *_: None if left == "nothing" else asked)
    with pytest.raises(FormatError):
        record_answer(run, asked, "approved", "ada", AIRFLOW)
    if left == "nothing":
        with pytest.raises(FormatError):
            records.ask(run, asked.request.subject, guards, "why")
