"""What every sweep does around its deleting."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.approve.sweep import Sweep as Driven
from dredge.errors import ConfigError, DefectError, DredgeError, FormatError, LeaseHeldError, PartialError
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.gate import GateConfig, publish, write_look
from dredge.runs.lease import Lease
from dredge.runs.payload import PartInfo
from dredge.runs.run import StepRecord
from dredge.runs.sweep import DeletingTask, Protected
from dredge.runs.tasks import Stores, WorkerRun
from dredge.runs.tries import StepTry
from dredge.storage import NOT_SENT, DeleteOutcome, ObjectWriter, open_writer, store_clock
from tests.support.memory_store import forget_memory_store

type Deed = Callable[[], None]
type Settle = Callable[[bool], DredgeError | None]

HOUR = timedelta(hours=1)
WATCH = "bulk_delete/_watch/1.json"


@pytest.fixture
def writer() -> Iterator[ObjectWriter]:
    yield open_writer("memory://sweep-test/run")
    forget_memory_store("sweep-test")


@pytest.fixture
def record(writer: ObjectWriter) -> StepRecord:
    return StepRecord({}, StepTry.claim(writer, ledger.STEP))


class Driver(Driven[Any]):
    def __init__(self, record: StepRecord, delete: Deed, settle: Settle, begun: bool = True) -> None:
        self.record, self.deed, self.settled, self.begun = record, delete, settle, begun

    has_begun = property(lambda self: self.begun)

    def refuse_alarmed(self) -> None:
        raise AssertionError("nothing is asked here")

    def delete(self) -> None:
        self.deed()

    def settle(self, complete: bool) -> DredgeError | None:
        return self.settled(complete)


def swept(
    record: StepRecord,
    stops: DredgeError | None = None,
    deleted: int = 0,
    settles: Settle = lambda _: None,
) -> None:
    def sweep() -> None:
        if stops is not None:
            raise stops

    def settle(complete: bool) -> DredgeError | None:
        failed = settles(complete)
        record.counts["deleted_objects"] = deleted
        return failed

    Driver(record, sweep, settle).delete_then_settle()


def test_a_sweep_that_stopped_is_settled_and_ends_with_its_error(record: StepRecord) -> None:
    said: list[bool] = []
    swept(record, LeaseHeldError("lost"), deleted=3, settles=lambda complete: said.append(complete))
    assert said == [False]
    assert record.status == "partial"
    assert isinstance(record.error, LeaseHeldError)


@pytest.mark.parametrize(("deleted", "family"), [(0, ConfigError), (3, PartialError)])
def test_no_error_says_that_nothing_was_touched_once_something_was(
    record: StepRecord, deleted: int, family: type[Exception]
) -> None:
    swept(record, ConfigError("the key pair has expired"), deleted=deleted)
    assert type(record.error) is family


def damaged(complete: bool) -> DredgeError | None:
    raise FormatError("the ledger is damaged")


def test_what_stopped_a_sweep_is_not_hidden_by_a_ledger_that_cannot_be_settled(record: StepRecord) -> None:
    swept(record, LeaseHeldError("lost"), settles=damaged)
    assert isinstance(record.error, LeaseHeldError)
    with pytest.raises(FormatError):
        swept(record, settles=damaged)


def test_a_defect_in_a_sweep_is_settled_like_any_other_stop(record: StepRecord) -> None:
    def defective() -> None:
        raise ZeroDivisionError

    Driver(record, defective, lambda _: None, begun=False).delete_then_settle()
    assert isinstance(record.error, DefectError)


class Deleter:
    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.keys: list[str] = []
        self.fails = fails

    def delete(self, keys: Sequence[str], may_send: Callable[[], bool] = lambda: True) -> list[DeleteOutcome]:
        assert may_send()
        self.keys += keys
        return [
            DeleteOutcome(key, "failed", "SlowDown", "later")
            if key in self.fails
            else DeleteOutcome(key, "deleted")
            for key in keys
        ]


class Sweep:
    def __init__(self, writer: ObjectWriter) -> None:
        self.attempt = StepTry.claim(writer, ledger.STEP)
        self.folder = RunFolder(writer, "r", self.attempt)
        grant = Lease(writer, HOUR, lambda: datetime.now(UTC)).acquire("run r")
        self.gate = GateConfig(lease=grant, watch=WATCH, trusted_seconds=0, silence_seconds_max=60)
        stores = Stores(
            run_uri=writer.uri,
            run_id="r",
            attempt=self.attempt.named,
            store_uri=writer.uri,
            state_uri=writer.uri,
            progress="bulk_delete/_progress/x",
        )
        self.run = WorkerRun.open(stores, "00000")
        write_look(self.folder, WATCH, True, "", store_clock(writer, ""))

    def part(self, *addresses: str) -> PartInfo:
        return self.folder.write_table("listing", 0, rows(*addresses), "chunks-0000")

    def task(self, deleter: Deleter) -> DeletingTask:
        return DeletingTask(self.run, deleter, self.gate)

    def outcomes(self, part: PartInfo) -> dict[str, str]:
        found = ledger.best(ledger.read_raw(self.folder, ledger.part_stem(part)))
        return dict(zip(found["address"].to_pylist(), found["outcome"].to_pylist(), strict=True))


def rows(*addresses: str) -> pa.Table:
    return pa.table(
        {
            "address": pa.array(addresses, pa.string()),
            "size": [1] * len(addresses),
            "reason": ["x"] * len(addresses),
        }
    )


@pytest.fixture
def sweep(writer: ObjectWriter) -> Sweep:
    return Sweep(writer)


def test_every_outcome_is_in_the_ledger_and_only_failures_are_tried_again(sweep: Sweep) -> None:
    part = sweep.part("d/a", "d/b", "d/c")
    task = sweep.task(Deleter(fails=["d/b"]))
    task.keep(part, rows("d/c"), ["alive_again"])
    assert task.delete(part, [rows("d/a"), rows("d/b")])
    assert task.failed == 1
    assert sweep.outcomes(part) == {"d/a": "deleted", "d/b": "failed", "d/c": "kept"}
    assert task.undone(part, "d/")["address"].to_pylist() == ["d/b"]


def test_a_candidate_outside_its_folder_stops_the_task(sweep: Sweep) -> None:
    with pytest.raises(FormatError):
        sweep.task(Deleter()).undone(sweep.part("d/a", "e/b"), "d/")


def test_no_group_is_sent_once_the_gate_is_closed(sweep: Sweep) -> None:
    part, deleter = sweep.part("d/a", "d/b"), Deleter()

    def groups() -> Iterator[pa.Table]:
        yield rows("d/a")
        write_look(sweep.folder, WATCH, False, "a branch moved", None)
        yield rows("d/b")

    task = sweep.task(deleter)
    assert not task.delete(part, groups())
    assert task.failed == 0
    assert deleter.keys == ["d/a"]
    assert sweep.outcomes(part) == {"d/a": "deleted"}


def test_a_gate_that_shut_within_a_group_ends_the_task_though_it_opened_again(sweep: Sweep) -> None:
    class HeldBack(Deleter):
        def delete(
            self, keys: Sequence[str], may_send: Callable[[], bool] = lambda: True
        ) -> list[DeleteOutcome]:
            self.keys += keys
            now = store_clock(sweep.folder.writer, "")
            write_look(sweep.folder, WATCH, True, "", now - timedelta(minutes=2))
            assert not may_send()
            write_look(sweep.folder, WATCH, True, "", now)
            return [DeleteOutcome(key, "failed", NOT_SENT) for key in keys]

    part, deleter = sweep.part("d/a", "d/b"), HeldBack()
    assert not sweep.task(deleter).delete(part, [rows("d/a"), rows("d/b")])
    assert deleter.keys == ["d/a"]
    assert sweep.outcomes(part) == {}


def test_a_right_that_is_lost_within_a_group_is_told_after_its_outcomes_are_written(sweep: Sweep) -> None:
    class Late(Deleter):
        def delete(
            self, keys: Sequence[str], may_send: Callable[[], bool] = lambda: True
        ) -> list[DeleteOutcome]:
            first = super().delete(keys[:1], may_send)
            Lease(sweep.folder.writer, HOUR, lambda: datetime.now(UTC) + 2 * HOUR).acquire("run s")
            assert not may_send()
            return [*first, *(DeleteOutcome(key, "failed", NOT_SENT) for key in keys[1:])]

    part, deleter = sweep.part("d/a", "d/b"), Late()
    with pytest.raises(LeaseHeldError):
        sweep.task(deleter).delete(part, [rows("d/a", "d/b")])
    assert deleter.keys == ["d/a"]
    assert sweep.outcomes(part) == {"d/a": "deleted"}


def test_only_what_can_be_taken_back_is_deleted_and_the_ledger_says_why_the_rest_is_not(sweep: Sweep) -> None:
    part, deleter = sweep.part("d/a", "d/b", "d/c", "d/d", "d/e"), Deleter()
    said = {
        "d/a": Protected(),
        "d/b": Protected("kept", "not_copied", "too long"),
        "d/c": Protected("failed", "SlowDown", "later"),
        "d/d": Protected("failed", NOT_SENT),
        "d/e": Protected("failed", "AccessDenied"),
    }

    def protect(group: pa.Table, may_send: Callable[[], bool]) -> list[Protected]:
        assert may_send()
        assert deleter.keys == [], "before anything is deleted"
        return [said[address] for address in group["address"].to_pylist()]

    task = DeletingTask(sweep.run, deleter, sweep.gate, protect=protect)
    assert task.delete(part, [rows(*said)])
    assert deleter.keys == ["d/a"]
    assert (task.failed, task.kept) == (2, 1)
    found = ledger.read_raw(sweep.folder, ledger.part_stem(part)).sort_by("address")
    columns = found.select(["address", "outcome", "code", "message"]).to_pylist()
    assert [tuple(row.values()) for row in columns] == [
        ("d/a", "deleted", None, None),
        ("d/b", "kept", "not_copied", "too long"),
        ("d/c", "failed", "SlowDown", "later"),
        ("d/e", "failed", "AccessDenied", None),
    ]
    assert task.undone(part, "d/")["address"].to_pylist() == ["d/c", "d/d", "d/e"]


def test_a_group_of_which_nothing_may_go_is_not_sent(sweep: Sweep) -> None:
    part, deleter = sweep.part("d/a"), Deleter()
    keeps = DeletingTask(sweep.run, deleter, sweep.gate, protect=lambda *_: [Protected("kept", "not_copied")])
    requests = []
    deleter.delete = lambda *_: requests.append(1) or []  # type: ignore[method-assign,func-returns-value]
    assert keeps.delete(part, [rows("d/a")])
    assert requests == []
    assert ledger.read_raw(sweep.folder, ledger.part_stem(part)).num_rows == 1


class Publishing(Deleter):
    def __init__(self, sweep: Sweep, published: Sequence[str], fails: Sequence[str] = ()) -> None:
        super().__init__(fails=list(fails))
        self.turn = 0
        self._sweep = sweep
        self._published = published

    def delete(self, keys: Sequence[str], may_send: Callable[[], bool] = lambda: True) -> list[DeleteOutcome]:
        self.turn += 1
        first = super().delete(keys[:1], may_send)
        if self.turn <= len(self._published):
            publish_used(self._sweep, self.turn, self._published[: self.turn])
        rest = keys[1:]
        if not may_send():
            return [*first, *(DeleteOutcome(key, "failed", NOT_SENT) for key in rest)]
        return [*first, *(super().delete(rest, may_send) if rest else [])]


PUBLISHED = "bulk_delete/_published/1"


def publish_used(sweep: Sweep, number: int, keys: Sequence[str]) -> None:
    parts = [PartInfo(key, 1, 8, f"{key:>064}") for key in keys]
    publish(sweep.folder, PUBLISHED, number, parts)
    write_look(sweep.folder, WATCH, True, "", store_clock(sweep.folder.writer, ""), number)


def still_used(parts: Sequence[PartInfo], group: pa.Table) -> pa.StringArray:
    named = {part.name for part in parts}
    return pa.array(
        ["alive_again" if key in named else None for key in group["address"].to_pylist()], pa.string()
    )


def publishing_task(sweep: Sweep, deleter: Deleter, **more: Any) -> DeletingTask:
    gate = replace(sweep.gate, published=PUBLISHED)
    return DeletingTask(sweep.run, deleter, gate, still_used=still_used, **more)


def test_what_came_into_use_before_a_group_is_not_deleted(sweep: Sweep) -> None:
    part, deleter = sweep.part("d/a", "d/b"), Deleter()
    publish_used(sweep, 1, ["d/a"])
    task = publishing_task(sweep, deleter)
    assert task.delete(part, [rows("d/a", "d/b")])
    assert deleter.keys == ["d/b"]
    assert (task.failed, task.kept) == (0, 1)
    assert sweep.outcomes(part) == {"d/a": "kept", "d/b": "deleted"}


def test_what_comes_into_use_within_a_group_is_not_deleted_and_the_rest_of_the_group_is(sweep: Sweep) -> None:
    part = sweep.part("d/a", "d/b", "d/c", "d/d")
    deleter = Publishing(sweep, ["d/c", "d/x"])
    task = publishing_task(sweep, deleter)
    assert task.delete(part, [rows("d/a", "d/b", "d/c", "d/d")])
    assert deleter.keys == ["d/a", "d/b", "d/d"]
    assert deleter.turn == 3
    assert (task.failed, task.kept) == (0, 1)
    assert sweep.outcomes(part) == {"d/a": "deleted", "d/b": "deleted", "d/c": "kept", "d/d": "deleted"}
    assert task.undone(part, "d/").num_rows == 0


def test_what_comes_into_use_while_a_group_is_copied_is_not_deleted(sweep: Sweep) -> None:
    part, deleter = sweep.part("d/a", "d/b", "d/c"), Deleter()
    copied: list[str] = []

    def protect(group: pa.Table, may_send: Callable[[], bool]) -> list[Protected]:
        found = []
        for key in group["address"].to_pylist():
            if not may_send():
                found.append(Protected("failed", NOT_SENT))
                continue
            copied.append(key)
            found.append(Protected())
            if key == "d/b" and copied.count(key) == 1:
                publish_used(sweep, 1, ["d/a"])
        return found

    task = publishing_task(sweep, deleter, protect=protect)
    assert task.delete(part, [rows("d/a", "d/b", "d/c")])
    assert copied == ["d/a", "d/b", "d/c"]
    assert deleter.keys == ["d/b", "d/c"]
    assert (task.failed, task.kept) == (0, 1)
    assert sweep.outcomes(part) == {"d/a": "kept", "d/b": "deleted", "d/c": "deleted"}
