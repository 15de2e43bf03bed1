"""The report and the state of a run."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import FormatError, OvertakenError, RefusedError, UnavailableError
from dredge.icechunk.collection import save_report as step
from dredge.icechunk.collection.index import SnapshotRow
from dredge.icechunk.collection.outputs import REPORT, ListCandidatesOutput, SaveReportOutput
from dredge.icechunk.collection.run import Run, RunState, StateStore, open_base, snapshots_table
from dredge.icechunk.collection.save_report import advance_state
from dredge.icechunk.collection.steps import collect, plan_collection, release_lease, run_steps, save_report
from dredge.icechunk.format.metadata import SnapshotEntry
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import KnownSnapshots
from dredge.runs.folder import RunFolder
from dredge.runs.parts import parquet_bytes
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import Current, Version
from dredge.storage import ObjectWriter, open_writer
from tests.support.icechunk_repo import Repo
from tests.support.icechunk_tasks import STATE

PAGE = "report.html"


def before_it_is_written(run: Run, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    real, left = step.build_report, [meanwhile]

    def slept(run: Run) -> dict[str, Any]:
        report = real(run)
        if left:
            left.pop()()
        return report

    monkeypatch.setattr(step, "build_report", slept)


def between_its_files(run: Run, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    real = run.folder.publish_json

    def slept(*arguments: Any) -> None:
        real(*arguments)
        meanwhile()

    monkeypatch.setattr(run.folder, "publish_json", slept)


@pytest.mark.parametrize("sleep", [before_it_is_written, between_its_files])
def test_an_orphaned_report_gives_way_to_a_newer_one(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, sleep: Callable[..., None]
) -> None:
    orphan = v1.plan()
    retry = Run.open(orphan.plan.run_uri)

    def ended() -> None:
        run_steps(retry, LocalRunner())
        save_report(retry)

    sleep(orphan, monkeypatch, ended)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    assert retry.folder.read_json(REPORT)["outcome"] == "success"
    assert "not finished" not in retry.folder.writer.get(PAGE).decode()
    summary = retry.folder.read_summary(SaveReportOutput.STEP)
    assert summary is not None
    assert SaveReportOutput.of(summary).outcome == "success"


@pytest.mark.parametrize("asleep_after", ["_is_complete", "keep_small"])
def test_an_orphan_that_wakes_after_the_end_of_its_run_leaves_the_lease_to_the_next(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, asleep_after: str
) -> None:
    orphan, honest = v1.plan(), getattr(step, asleep_after)
    run_steps(orphan, LocalRunner())

    def asleep(*arguments: Any) -> Any:
        found = honest(*arguments)
        monkeypatch.undo()
        with monkeypatch.context() as without:
            without.setattr(step, "advance_state", lambda _: None)
            save_report(Run.open(orphan.plan.run_uri))
        release_lease(orphan)
        return found

    monkeypatch.setattr(step, asleep_after, asleep)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    v1.plan()  # the next one is not refused


def test_lease_is_given_back_although_the_report_cannot_be_written(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise UnavailableError("the store does not answer")

    monkeypatch.setattr(step, "render_html", unavailable)
    with pytest.raises(UnavailableError):
        collect(v1.config())
    make_lease(open_state(v1.uri)).acquire("the next run")


HERE = LocalRunner()


def state_of(repo: Repo) -> RunState | None:
    return StateStore(open_state(repo.uri)).current(repo.uri, repo.spec).state


def ended(repo: Repo, **changes: Any) -> Run:
    run = Run.open(plan_collection(repo.config(**changes)).run_uri)
    run_steps(run, HERE)
    save_report(run)
    release_lease(run)
    return run


@pytest.mark.parametrize("changes", [{"dry_run": True}, {"keep_transactions": True}])
@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_run_that_was_not_to_delete_all_leaves_the_state_as_it_was(
    v1: Repo, mode: str, changes: dict[str, Any]
) -> None:
    collect(v1.config())
    before = state_of(v1)
    assert before is not None
    ended(v1, mode=mode, **changes)
    assert state_of(v1) == before


def test_state_is_made_from_one_unbroken_chain_only(v1: Repo) -> None:
    run = v1.plan()
    run_steps(run, HERE)
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))
    with pytest.raises(RefusedError, match="list_candidates"):
        advance_state(run)
    assert state_of(v1) is None
    run.folder.write_summary(summary)
    assert advance_state(run) is not None


ROWS = [SnapshotRow("A", ("M", "N"), (1, 2)), SnapshotRow("B", (), ()), SnapshotRow("C", ("M",), (1,))]


@pytest.fixture
def state() -> ObjectWriter:
    return open_writer(f"memory://base-{uuid.uuid4().hex}")


def left(state: ObjectWriter, known: KnownSnapshots) -> RunState:
    uri = f"{state.uri}/runs/r2"
    data = parquet_bytes(snapshots_table(ROWS, known))
    folder = RunFolder(open_writer(uri), "r2")
    part = folder.write_bytes("mark/snapshots.parquet", data, len(ROWS))
    virtual = folder.write_bytes("mark/virtual.ids", b"", 0)
    return replace(STATE, run_uri=uri, snapshots=part, virtual=virtual)


def advanced(state: ObjectWriter) -> Version:
    known = KnownSnapshots()
    known.entries["A"] = ("tag-a", SnapshotEntry("A", "B", 11, ""))
    known.entries["B"] = ("tag-b", SnapshotEntry("B", None, 12, ""))
    known.entries["X"] = ("tag-x", SnapshotEntry("X", None, 13, ""))
    return StateStore(state).advance(left(state, known), Current())


@pytest.mark.parametrize("damage", ["gone", "changed", "another object"])
def test_state_that_is_not_as_it_was_stops_the_run(state: ObjectWriter, damage: str) -> None:
    version = advanced(state)
    if damage == "gone":
        version = replace(version, name="state/nowhere.json")
    elif damage == "changed":
        state.put(version.name, state.get(version.name).replace(b'"r1"', b'"r9"'))
    else:
        version = StateStore(state).advance(left(state, KnownSnapshots()), StateStore(state).find({}))
        state.put(version.name, b"{}")
    with pytest.raises(FormatError):
        open_base(version, state, None)


def test_state_is_of_use_for_the_repository_that_it_is_about_only(state: ObjectWriter) -> None:
    store = StateStore(state)
    version = store.advance(
        replace(left(state, KnownSnapshots()), counted=replace(STATE.counted, layers=())), Current()
    )
    for uri in (STATE.uri, f"{STATE.uri}/"):
        assert store.current(uri, 2).version == version
        assert store.current(uri, 2).state is not None
    assert STATE.uri in store.current(f"{STATE.uri}-2", 2).problem
    assert "spec_version" in store.current(STATE.uri, 1).problem


def test_released_snapshots_that_are_young_are_not_called_needed(repo: Repo) -> None:
    found = repo.collect(unsafe_min_age_seconds=None, dry_run=True)
    kept = {row["why"]: row["objects"] for row in found["rows"] if row["kind"] == "snapshots"}
    assert kept == {"needed": 10, "released, younger than the cutoff": 5}
