"""A step builds on what it was given and on nothing else, and says what it ended at."""

import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import FormatError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepOutput, StepSummary
from dredge.runs.run import PLAN, Ahead, StepRecord, breaks, collect_links, perform
from dredge.runs.tries import newest_number
from dredge.storage import open_writer
from tests.support.memory_store import forget_memory_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    yield RunFolder(open_writer("memory://perform-test/r1"), "r1")
    forget_memory_store("perform-test")


def clock() -> datetime:
    return NOW


def nothing(_: StepRecord) -> None: ...


def test_what_no_step_wrote_is_among_what_a_result_was_made_from(folder: RunFolder) -> None:
    for plan, tries in (("a", 1), ("a", 1), ("b", 2)):
        done = perform(folder, "first", [], nothing, clock, roots={"plan": plan})
        assert (done.inputs, done.try_number) == ({"plan": plan}, tries)


LINKS = {"first": [PLAN], "second": ["first"], "third": ["first", "second"]}
DIGEST = "of the plan"


def summary(step: str, inputs: Mapping[str, str], **counts: int) -> StepSummary:
    return StepSummary(step, "r1", "success", NOW, NOW, counts=counts, inputs=inputs)


def unbroken() -> dict[str, StepSummary]:
    digests, found = {PLAN: DIGEST}, dict[str, StepSummary]()
    for step, read in LINKS.items():
        found[step] = summary(step, {name: digests[name] for name in read})
        digests[step] = found[step].digest
    return found


def test_a_result_that_was_made_without_an_input_breaks_the_chain() -> None:
    found = unbroken()
    found["third"] = summary("third", {"second": found["second"].digest})
    assert len(list(breaks(LINKS, found, DIGEST))) == 1


def test_a_result_that_was_made_from_another_one_breaks_the_chain() -> None:
    found = unbroken()
    found["second"] = summary("second", found["second"].inputs, rows=1)
    assert len(list(breaks(LINKS, found, DIGEST))) == 1
    assert len(list(breaks(LINKS, unbroken(), "of another plan"))) == 1


class First(StepOutput):
    STEP = "first"


class Second(StepOutput):
    STEP = "second"
    INPUTS = (First,)


class Third(StepOutput):
    STEP = "third"
    INPUTS = (Second, First)


def test_a_chain_names_everything_that_a_result_was_made_from() -> None:
    assert collect_links([Third]) == {"first": [PLAN], "second": ["first"], "third": ["second", "first"]}
    assert collect_links(Second.INPUTS) == {"first": [PLAN]}


def test_a_summary_of_another_step_is_refused() -> None:
    with pytest.raises(FormatError):
        Second.of(StepSummary("first", "r1", "success", NOW, NOW))


class Slow:
    """A writer whose summaries wait until a step claimed its try."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.claimed = threading.Event()
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        if key == "first/_SUCCESS.json":
            assert self.claimed.wait(30)
            if self.fails:
                raise UnavailableError("no answer")
        if key == "second/_try.json":
            self.claimed.set()
        found: str | None = self._writer.put_if_absent(key, data)
        return found


def test_a_summary_is_written_while_the_next_step_claims_its_try_and_before_it_works(
    folder: RunFolder,
) -> None:
    slow: Any = Slow(folder.writer)
    several = RunFolder(slow, "r1")
    seen: list[bool] = []
    with several.keeping(goes_on=True):
        perform(several, "first", [], nothing, clock)
        perform(
            several,
            "second",
            ["first"],
            lambda _: seen.append(folder.read_summary("first") is not None),
            clock,
        )
    assert seen == [True]
    assert folder.read_summary("second") is not None


def test_a_step_does_not_work_after_a_summary_that_could_not_be_written(folder: RunFolder) -> None:
    slow: Any = Slow(folder.writer)
    slow.fails = True
    several = RunFolder(slow, "r1")
    worked: list[StepRecord] = []
    with several.keeping(goes_on=True):
        perform(several, "first", [], nothing, clock)
        with pytest.raises(UnavailableError):
            perform(several, "second", ["first"], worked.append, clock)
        assert not worked
        assert several.read_summary("first") is None


class Claiming:
    """A writer with claims of `second` that wait until its reads have begun."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.reads = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        assert key != "second/_try.json" or self.reads.wait(30)
        found: str | None = self._writer.put_if_absent(key, data)
        return found


def test_the_first_reads_of_a_step_begin_beside_its_claim(folder: RunFolder) -> None:
    claiming: Any = Claiming(folder.writer)
    several, seen = RunFolder(claiming, "r1"), list[object]()
    ahead = Ahead(lambda inputs: claiming.reads.set() or [*inputs])
    with several.keeping(goes_on=True):
        perform(several, "first", [], nothing, clock)
        perform(
            several,
            "second",
            ["first"],
            lambda record: seen.append(ahead.result(record.inputs)),
            clock,
            ahead=ahead,
        )
    assert seen == [["first"]]


def test_reads_that_began_before_a_later_try_of_an_input_are_made_again(folder: RunFolder) -> None:
    several, tries = RunFolder(folder.writer, "r1"), list[int]()
    ahead = Ahead(lambda inputs: inputs["first"].try_number)
    with several.keeping(goes_on=True):
        perform(several, "first", [], nothing, clock)
        several.settle()
        perform(folder, "first", [], nothing, clock, roots={"plan": "another"})  # in another process
        summary = perform(
            several,
            "second",
            ["first"],
            lambda record: tries.append(ahead.result(record.inputs)),
            clock,
            ahead=ahead,
        )
    found = folder.read_summary("first")
    assert found is not None
    assert (tries, found.try_number) == ([2], 2)
    assert summary.inputs["first"] == found.digest


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_step_that_does_not_know_its_inputs_reads_after_its_claim(folder: RunFolder, goes_on: bool) -> None:
    perform(folder, "first", [], nothing, clock)
    several, numbers = RunFolder(folder.writer, "r1"), list[int]()
    ahead = Ahead(lambda _: newest_number(folder.writer, "second"))
    with several.keeping(goes_on=goes_on):
        perform(
            several,
            "second",
            ["first"],
            lambda record: numbers.append(ahead.result(record.inputs)),
            clock,
            ahead=ahead,
        )
    assert numbers == [1]
