"""What is asked and answered is written once."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError, RejectedError, UnavailableError
from dredge.gc.approve.records import AIRFLOW, record_answer
from dredge.gc.approve.step import answer, approve, find_question
from dredge.storage import ObjectWriter
from tests.support.approvals import change, said, waiting_run


def test_records_are_never_overwritten() -> None:
    world, run, _, _ = waiting_run()
    first = said(run, by="ada")
    world.age(minutes=5)
    again = record_answer(run, find_question(run), "approved", "bob", AIRFLOW)
    assert again.approved == first.approved


def test_an_answer_whose_receipt_was_lost_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client sends the put again, and meets what its first request wrote."""
    _, run, _, _ = waiting_run()
    kind: type[ObjectWriter] = type(run.folder.writer)
    honest = kind.put_if_absent

    def twice(self: ObjectWriter, key: str, data: bytes) -> str | None:
        honest(self, key, data)
        return honest(self, key, data)

    monkeypatch.setattr(kind, "put_if_absent", twice)
    found = answer(run, "approved", "ada", AIRFLOW)
    assert found.approved is not None
    assert found.approved.by == "ada"


def test_an_answer_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _, run, _, _ = waiting_run()

    def down(*_: object) -> None:
        raise UnavailableError("503")

    monkeypatch.setattr(type(run.folder.writer), "put_if_absent", down)
    with pytest.raises(UnavailableError):
        said(run)


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
