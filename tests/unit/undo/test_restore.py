"""A restore pins what it chose before the first byte, puts that back and nothing else, and tells of each object."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, UnavailableError
from dredge.hashing import hash64
from dredge.runs import ledger
from dredge.runs.clock import Coverage
from dredge.runs.folder import RunFolder
from dredge.runs.gate import Gate
from dredge.runs.payload import Json, PartInfo, StepSummary
from dredge.runs.tasks import LocalRunner, TaskFunction
from dredge.storage import ObjectWriter, open_writer
from dredge.undo import restore as step
from dredge.undo.deleted import Collected, SweptRun
from dredge.undo.pins import Pin, read_pins
from dredge.undo.putting_back import PuttingBack, Restored
from dredge.undo.ways import QUARANTINE, RestoreConfig, quarantine_uri
from dredge.xid import new_descending_xid
from tests.support.memory_store import forget_memory_store, memory_store

NOW, DAY = datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=1)
SLICE = new_descending_xid(NOW - 30 * DAY)
PARTS = [
    {"data/a": "expired", f"data/{SLICE}/b": "never_linked"},
    {"data/c": "never_linked"},
    {"data/d": "expired"},
]
"""What the run deleted, with the reasons."""
ALL = {address: reason for part in PARTS for address, reason in part.items()}


@dataclass
class Lake:
    """A namespace where a run deleted everything, with copies."""

    root: str
    etag: str | None = None  # of each object in the run's listing

    @property
    def state(self) -> ObjectWriter:
        return open_writer(f"{self.root}/state")

    @property
    def run(self) -> RunFolder:
        return RunFolder(open_writer(f"{self.root}/runs/one"), "one")

    def put(self) -> None:
        memory_store(self.root.removeprefix("memory://")).clock = lambda: NOW
        self.run.writer.put("plan.json", b"{}")
        for address in ALL:
            open_writer(quarantine_uri(self.run.uri)).put(address, b"garbage")

    def parts(self) -> list[PartInfo]:
        written = []
        for number, part in enumerate(PARTS):
            addresses = pa.array([*part], pa.string())
            columns = {
                "address": addresses,
                "size": pa.array([7] * len(part), pa.int64()),
                "last_modified": pa.array([NOW] * len(part), pa.timestamp("us", tz="UTC")),
                "etag": pa.array([self.etag] * len(part), pa.string()),
                "hash": pa.array(hash64(addresses)),
                "reason": pa.array([*part.values()], pa.string()),
            }
            written.append(self.run.write_table("subtract", number, pa.table(columns), "candidates"))
        return written

    def restore(self, run: str = "one", runner: LocalRunner | None = None, **asked: Any) -> StepSummary:
        collected = Collected(
            repository="lake",
            uri=f"{self.root}/lake",
            state=self.state,
            runs_uri=f"{self.root}/runs",
            open_run=lambda _: SweptRun(QUARANTINE, self.run, self.parts(), ("data/",)),
        )
        config = RestoreConfig.from_params({"repository": "lake", "run": run, **asked})
        return step.restore(collected, config, runner or LocalRunner(), clock=lambda: NOW)

    def there(self) -> set[str]:
        return {
            key for batch in open_writer(f"{self.root}/lake").list("") for key in batch["key"].to_pylist()
        }

    def pin(self) -> Pin:
        (found,) = read_pins(self.state)
        return found


@pytest.fixture
def lake() -> Iterator[Lake]:
    name = f"restore-{uuid.uuid4().hex[:8]}"
    made = Lake(f"memory://{name}")
    made.put()
    yield made
    forget_memory_store(name)


def holds(pin: Pin) -> set[str]:
    return {address for address in ALL if pin.has(int(hash64(pa.array([address]))[0]))}


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({"all": True}, set(ALL)),
        ({"reason": "never_linked"}, {f"data/{SLICE}/b", "data/c"}),
        ({"prefix": f"data/{SLICE}/"}, {f"data/{SLICE}/b"}),
        ({"address": "data/c"}, {"data/c"}),
    ],
)
def test_what_is_chosen_comes_back_and_is_pinned_and_nothing_else(
    asked: dict[str, Any], chosen: set[str], lake: Lake
) -> None:
    done = lake.restore(**asked, keep_days=5, because="an audit")
    assert lake.there() == chosen
    pin = lake.pin()
    assert holds(pin) == chosen
    assert (pin.objects, pin.size_bytes, pin.run_id) == (len(chosen), 7 * len(chosen), "one")
    assert (pin.created_at, pin.until, pin.finished_at) == (NOW, NOW + 5 * DAY, NOW)
    assert pin.reason == "an audit"
    opened = NOW - 30 * DAY
    in_slice = any(SLICE in address for address in chosen)
    assert pin.slices == (Coverage(((opened, opened + timedelta(seconds=1)),)) if in_slice else Coverage())
    assert (done.counts["chosen_objects"], done.counts["chosen_bytes"]) == (len(chosen), 7 * len(chosen))
    assert (done.counts["restored_objects"], done.counts["restored_bytes"]) == (len(chosen), 7 * len(chosen))
    assert (done.status, done.warnings, done.details["pin"]) == ("success", (), pin.text)


def test_the_pin_is_in_force_before_the_first_byte_and_finished_after_the_last(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, seen = PuttingBack.put_back, []

    def watched(self: PuttingBack, row: Mapping[str, Any]) -> Restored:
        seen.append((holds(lake.pin()), lake.pin().finished_at))
        return honest(self, row)

    monkeypatch.setattr(PuttingBack, "put_back", watched)
    lake.restore(all=True)
    assert seen == [({*ALL}, None)] * len(ALL)
    assert lake.pin().reason == "restored"
    assert lake.pin().until == NOW + 30 * DAY


class Orphaning(LocalRunner):
    """Each task is called once more, by a worker that was taken for lost."""

    def __init__(self) -> None:
        super().__init__()
        self.orphans: list[Callable[[], object]] = []

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        self.orphans += [partial(fn, config, task) for task in tasks]
        return super().run(name, fn, config, tasks)


def test_a_task_that_is_still_at_work_does_not_replace_what_the_pin_holds(lake: Lake) -> None:
    """It sees another ledger by then: a worker of the run told late of what it had kept. And a pin that cannot be read
    stops every run."""
    runner = Orphaning()
    lake.restore(runner=runner, all=True)
    row = {
        "address": "data/a",
        "size": 7,
        "reason": "expired",
        "outcome": ledger.KEPT,
        "attempt": 1,
        "fencing": 1,
    }
    ledger.write_raw(lake.run, "candidates-00000", 1, 0, 1, pa.Table.from_pylist([row], schema=ledger.SCHEMA))
    for orphan in runner.orphans:
        orphan()
    assert holds(lake.pin()) == {*ALL}


def test_what_comes_back_under_another_tag_is_pinned_by_the_next_restore_too(lake: Lake) -> None:
    """An encrypted store gives a copy another tag, so the next restore takes it for another object."""
    lake.etag = "0" * 32
    lake.restore(all=True)
    again = lake.restore(all=True)
    assert again.counts["taken_objects"] == len(ALL)
    assert [holds(pin) for pin in read_pins(lake.state)] == [{*ALL}, {*ALL}]
    assert {pin.until for pin in read_pins(lake.state)} == {NOW + 30 * DAY}


def test_a_restore_of_nothing_makes_no_pin_and_one_of_no_run_no_folder(lake: Lake) -> None:
    with pytest.raises(ConfigError):
        lake.restore(prefix="data/x")
    assert read_pins(lake.state) == []
    before = set(memory_store(lake.root.removeprefix("memory://")).objects)
    for run in ("nothing", f"{lake.root}/elsewhere"):
        with pytest.raises(ConfigError):
            lake.restore(run=run, all=True)
    assert set(memory_store(lake.root.removeprefix("memory://")).objects) == before


def test_behind_a_closed_gate_nothing_is_put_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "lets_through", lambda _: False)
    with pytest.raises(UnavailableError):
        lake.restore(all=True)
    assert lake.there() == set()
