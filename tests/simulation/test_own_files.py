"""The rules about Dredge's own files in Icechunk's world can be broken."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.clock import DAY
from tests.simulation.history import Simulation, Violation
from tests.simulation.icechunk.own_files import OwnFiles
from tests.simulation.scheduler import Killed, Process

RUN = "_dredge/runs/r1"


def _plan(number: int) -> bytes:
    return json.dumps({"lease": {"fencing": number}}).encode()


def _part(name: str) -> dict[str, Any]:
    return {"name": name, "sha256": "", "rows": 1, "size_bytes": 1}


def _done(step: str, digest: str, **inputs: str) -> bytes:
    return json.dumps({"step": step, "digest": digest, "inputs": inputs}).encode()


def _state(part: str) -> bytes:
    return json.dumps({"counted": {"layers": [[_part(part)]]}}).encode()


def _head(part: str, *replaced: str) -> bytes:
    value = {"snapshots": [], "manifests": [{"part": _part(part)}], "replaces": list(replaced)}
    return json.dumps(value).encode()


@pytest.fixture
def own() -> OwnFiles:
    return OwnFiles(Simulation.make(0))


def broken(own: OwnFiles, deed: Callable[[], None]) -> str:
    """The rule broken by a callable; "" for none."""
    try:
        deed()
    except Killed:
        error = own.simulation.scheduler.error
        assert isinstance(error, Violation)
        return error.rule
    return ""


def by(own: OwnFiles, name: str, deed: Callable[[], None], calls: int = 0) -> str:
    scheduler = own.simulation.scheduler
    process = own.processes.setdefault(name, Process(name, scheduler, role="bulk_delete"))
    process.calls += calls
    actor = scheduler.spawn(name, deed, process)
    scheduler.run()
    del actor
    error = scheduler.error
    return error.rule if isinstance(error, Violation) else ""


def test_a_plan_never_gets_a_lower_lease_back(own: OwnFiles) -> None:
    own.on_put(f"{RUN}/plan.json", _plan(3))
    assert not broken(own, lambda: own.on_put(f"{RUN}/plan.json", _plan(4)))
    assert broken(own, lambda: own.on_put(f"{RUN}/plan.json", _plan(3))) == "lease"


def test_the_later_of_two_reports_stays(own: OwnFiles) -> None:
    own.on_put(f"{RUN}/plan.json", _plan(3))

    def claimed_and_written() -> None:
        own.on_put(f"{RUN}/save_report/_try.json", b"{}")
        own.on_put(f"{RUN}/report.json", b"{}")

    assert not by(own, "run0 save_report", claimed_and_written)
    assert not by(own, "run0 save_report#2", claimed_and_written)
    assert by(own, "run0 save_report", lambda: own.on_put(f"{RUN}/report.json", b"{}")) == "report"


def test_nothing_is_deleted_by_results_that_were_not_made_from_each_other(own: OwnFiles) -> None:
    assert not by(own, "run0 plan", lambda: own.on_put(f"{RUN}/plan.json", _plan(3)))
    sweeper = "run0 collect"
    own.processes[sweeper] = Process(sweeper, own.simulation.scheduler, role="bulk_delete")
    for step, data in (
        ("mark", _done("mark", "m1")),
        ("list_candidates", _done("list_candidates", "l1", mark="m1")),
        ("check_limits", _done("check_limits", "c1", mark="m1", list_candidates="l1")),
        ("list_candidates", _done("list_candidates", "l2", mark="m1")),
    ):
        key = f"{RUN}/{step}/_SUCCESS.json"
        assert not by(own, "run0 orphan", lambda key=key, data=data: own.on_put(key, data))  # type: ignore[misc]
    noted = "_dredge/deletions/r1.json"
    assert not by(own, sweeper, lambda: own.note_sweep(noted), calls=2)
    assert by(own, sweeper, lambda: own.note_sweep(noted), calls=90) == "chain"


def test_what_a_state_of_the_last_week_names_stays(own: OwnFiles) -> None:
    scheduler = own.simulation.scheduler
    own.on_put("_dredge/state/versions/a.json", _state("counted/old.counts"))
    own.on_put("_dredge/state/versions/b.json", _state("counted/new.counts"))
    assert broken(own, lambda: own.on_delete("_dredge/counted/old.counts")) == "own files"
    scheduler.now += 8 * DAY
    assert not broken(own, lambda: own.on_delete("_dredge/counted/old.counts"))
    assert broken(own, lambda: own.on_delete("_dredge/counted/new.counts")) == "own files"


def test_parts_of_the_index_stay_for_a_week_after_a_head_that_names_them(own: OwnFiles) -> None:
    own.on_put("_dredge/index/heads/a.json", _head("index/parts/one.ids"))
    own.on_put("_dredge/index/heads/b.json", _head("index/parts/two.ids", "index/heads/a.json"))
    assert broken(own, lambda: own.on_delete("_dredge/index/parts/one.ids")) == "own files"
    own.simulation.scheduler.now += 8 * DAY
    assert not broken(own, lambda: own.on_delete("_dredge/index/parts/one.ids"))
    assert not broken(own, lambda: own.on_delete("_dredge/index/heads/a.json"))
    assert broken(own, lambda: own.on_delete("_dredge/index/parts/two.ids")) == "own files"
