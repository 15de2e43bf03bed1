"""The sweep: re-check, order, failures, archived objects."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import (
    ConfigError,
    LeaseHeldError,
    RefusedError,
    UnavailableError,
)
from dredge.icechunk.collection import bulk_delete as step
from dredge.icechunk.collection.bulk_delete import look_again, newly_live
from dredge.icechunk.collection.config import IcechunkRestoreConfig, Safety, Tuning
from dredge.icechunk.collection.index import snapshot_rows
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput, read_live_snapshots
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report import build_report
from dredge.icechunk.collection.steps import bulk_delete, check_limits, collect, restore, verify
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import decode_id, encode_ids
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.runs.tasks import LocalRunner
from dredge.storage import STORE_HOLD, DeleteOutcome, open_reader
from dredge.storage.undo import StreamedCopier
from dredge.undo.pins import end_pin
from tests.support.folder_store import LocalDeleter, LocalReader
from tests.support.gc import deleting
from tests.support.icechunk import contents, counts_of, local_storage, objects, quiet
from tests.support.icechunk_repo import Repo, change_number, grown, until_shut

HERE = LocalRunner()


def failing_manifest(key: str) -> DeleteOutcome | None:
    return DeleteOutcome(key, "failed", "SlowDown", "later") if key.startswith("manifests") else None


def test_failed_deletes_are_counted_later_kinds_are_not_begun_and_a_rerun_finishes(
    repo: Repo,
) -> None:
    run = repo.guarded()
    chunks = objects(repo.folder)["chunks"]
    with deleting(answer=failing_manifest), pytest.raises(UnavailableError, match=r"\b5\b"):
        bulk_delete(run, HERE)
    assert objects(repo.folder)["chunks"] == chunks
    report = build_report(run)
    assert (report["outcome"], report["failed"]["objects"]) == ("partial", 5)
    summary = bulk_delete(run, HERE)
    assert summary.status == "success"
    assert summary.counts["failed_objects"] == 0
    assert summary.counts["deleted_objects"] == (20 if repo.spec == 1 else 15)
    attempts = [
        row["attempt"]
        for table in run.folder.read_parts(summary.parts_below("bulk_delete/manifests"))
        for row in table.to_pylist()
    ]
    assert set(attempts) == {2}


def test_kill_between_any_two_requests_leaves_a_sound_repository_and_a_rerun_finishes(
    repo: Repo, tmp_path: Path
) -> None:
    total = 20 if repo.spec == 1 else 15
    readable = {name: contents(repo.library, branch=name) for name in repo.library.list_branches()}
    for requests in (1, 5, 7, 12, total - 1):
        folder = tmp_path / f"killed-{requests}"
        shutil.copytree(repo.folder, folder)
        copy = Repo(folder, repo.ids)
        run = copy.guarded(tuning=Tuning(delete_keys=1))

        def killed(number: int, _keys: object, limit: int = requests) -> None:
            if number > limit:
                raise KeyboardInterrupt

        with deleting(before=killed), pytest.raises(KeyboardInterrupt):
            bulk_delete(run, HERE)
        assert {
            name: contents(copy.library, branch=name) for name in copy.library.list_branches()
        } == readable
        summary = bulk_delete(run, HERE)
        assert summary.counts["deleted_objects"] == total
        verify(run)


def test_lease_lost_during_the_sweep_stops_it_before_the_next_request(repo: Repo) -> None:
    run = repo.guarded(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0))

    def overtake(number: int, _keys: object) -> None:
        if number == 2:  # the first request was sent
            run.lease.release(run.plan.lease)
            make_lease(run.state, 60).acquire("somebody else")

    with deleting(before=overtake), pytest.raises(LeaseHeldError):
        bulk_delete(run, HERE)
    assert build_report(run)["deleted"]["objects"] == 1


def test_what_names_something_is_deleted_before_what_it_names(repo: Repo) -> None:
    run = repo.guarded()
    with deleting() as requests:
        bulk_delete(run, HERE)
    kinds = [kind for keys in requests.made for kind in dict.fromkeys(key.split("/")[0] for key in keys)]
    logs = ["transactions"] if repo.spec == 1 else []
    assert kinds == ["snapshots", *logs, "manifests", "chunks"]


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
def test_what_a_file_names_that_the_store_holds_stays_also_when_the_sweep_goes_on_after_a_kill(
    repo: Repo, kind: str
) -> None:
    before, reader = objects(repo.folder), open_reader(repo.uri)
    undisturbed = repo.collected(repo.folder.parent / "whole")
    held = min(before[kind] - undisturbed[kind])
    run = repo.guarded(tuning=Tuning(delete_keys=1))
    killed = [False]

    def kill(_number: int, keys: Sequence[str]) -> None:
        if keys[0].startswith("chunks") and not killed[0]:
            killed[0] = True
            raise KeyboardInterrupt

    def hold(key: str) -> DeleteOutcome | None:
        return DeleteOutcome(key, "kept", STORE_HOLD, "on hold") if key == f"{kind}/{held}" else None

    manifests = [held] if kind == "manifests" else [*next(snapshot_rows(reader, [held])).manifests]
    chunks = set()
    for manifest in manifests:
        arrays = parse_manifest(reader.get(f"manifests/{manifest}"), manifest).arrays
        chunks |= {
            name for array in arrays for name in encode_ids(array.ids[array.kind == NATIVE]).to_pylist()
        }
    assert chunks - undisturbed["chunks"], "some would have gone"
    with deleting(before=kill, answer=hold):
        with pytest.raises(KeyboardInterrupt):
            bulk_delete(run, HERE)
        summary = bulk_delete(run, HERE)
    left = objects(repo.folder)
    assert held in left[kind]
    assert {*manifests} <= left["manifests"]
    assert chunks <= left["chunks"]
    assert summary.counts["failed_objects"] == 0
    assert left["snapshots"] < before["snapshots"]
    verify(run)


def test_old_mark_is_not_swept(repo: Repo) -> None:
    run = repo.guarded(safety=Safety(mark_age_hours_max=0.0))
    before = objects(repo.folder)
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    assert objects(repo.folder) == before


def list_again(run: Run) -> None:
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    run.folder.write_summary(replace(summary, details={**summary.details, "made": "again"}))


def test_dry_run_does_not_count_what_its_guards_did_not_see(v1: Repo) -> None:
    run = v1.guarded(dry_run=True)
    list_again(run)
    with pytest.raises(RefusedError, match="list_candidates"):
        bulk_delete(run, HERE)


def test_sweep_looks_at_the_chain_again_after_it_looked_at_refs(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, honest = v1.guarded(), step.look_again
    before = objects(v1.folder)

    def look_again(*arguments: Any) -> Any:
        list_again(run)
        return honest(*arguments)

    monkeypatch.setattr(step, "look_again", look_again)
    with pytest.raises(RefusedError, match="list_candidates"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before


def with_verdict(run: Run, verdict: str) -> Run:
    summary = check_limits(run)
    run.folder.write_summary(replace(summary, details={**summary.details, "verdict": verdict}))
    return run


@pytest.mark.parametrize("approval", ["never", "over_limits"])
@pytest.mark.parametrize("verdict", ["awaiting_approval", "refused"])
def test_sweep_deletes_nothing_when_the_guards_did_not_pass(v1: Repo, verdict: str, approval: str) -> None:
    run = with_verdict(v1.listed(approval=approval), verdict)
    before = objects(v1.folder)
    with pytest.raises(RefusedError):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before


def test_chunk_of_a_writer_that_commits_before_the_sweep_is_kept_although_it_was_a_candidate(
    repo: Repo,
) -> None:
    session = repo.library.writable_session("main")
    change_number(session, 4711)
    run = repo.guarded()  # without any minimum age the open writer's chunk is a candidate
    session.commit("late")
    bulk_delete(run, HERE)
    verify(run)
    assert contents(repo.library, branch="main")[0] == 4711
    counts = counts_of(build_report(run), "bulk_delete")
    assert (counts["kept_objects"], counts["new_since_mark"]) == (1, 1)


@pytest.mark.parametrize("how", ["branch", "tag", "commit"])
def test_ref_on_a_released_snapshot_between_mark_and_sweep_stops_the_sweep(v1: Repo, how: str) -> None:
    run = v1.guarded()
    before = objects(v1.folder)
    if how == "tag":
        v1.library.create_tag("back", v1.ids["7"])
    else:
        v1.library.create_branch("back", v1.ids["7"])
    if how == "commit":
        v1.library.writable_session("back").commit("on top", allow_empty=True)
        before = objects(v1.folder)
    with pytest.raises(RefusedError, match=r"(branch|tag) back"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
    assert contents(v1.library, **{"tag" if how == "tag" else "branch": "back"})


def test_upgrade_that_has_removed_some_refs_stops_the_sweep(v1: Repo) -> None:
    # It writes the repo info, then removes refs: until it comes to main, what is left looks like all there is.
    run = v1.guarded()
    v1.library.create_branch("back", v1.ids["7"])
    quiet().upgrade_icechunk_repository(v1.library, dry_run=False, delete_unused_v1_files=False)
    (v1.folder / "refs" / "branch.back" / "ref.json").unlink()
    before = objects(v1.folder)
    with pytest.raises(RefusedError, match="spec 2"):
        bulk_delete(run, HERE)
    assert objects(v1.folder) == before
    assert contents(v1.library, branch="back")


def test_ref_on_a_released_snapshot_during_the_sweep_stops_it(v1: Repo, stand_in: Any) -> None:
    # The first request deletes snapshot files; a branch appears on one whose turn has not come.
    run = v1.guarded(tuning=Tuning(delete_keys=1), safety=Safety(gate_every_seconds=0.02))
    candidates = [v1.ids[name] for name in ("1", "2", "4", "6", "7")]

    def disturbed(honest: Any, deleter: LocalDeleter, *asked: Any) -> list[DeleteOutcome]:
        found: list[DeleteOutcome] = honest(deleter, *asked)
        if deleter.uri == v1.uri:
            left = [node for node in candidates if (v1.folder / "snapshots" / node).exists()]
            assert left, "the sweep went on although the gate was shut"
            if "back" not in v1.library.list_branches():
                v1.library.create_branch("back", left[-1])
                until_shut(run)
        return found

    stand_in(LocalDeleter.delete, disturbed)
    with pytest.raises(RefusedError, match="branch back"):
        bulk_delete(run, HERE)
    assert build_report(run)["kinds"]["chunks"].get("deleted_objects", 0) == 0
    assert build_report(run)["outcome"] == "partial"


def test_when_refs_cannot_be_looked_at_the_sweep_stops(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    run = repo.guarded()
    before = objects(repo.folder)

    looks: list[Any] = []

    def look(*given: Any) -> Any:
        looks.append(given)
        if len(looks) == 1:  # the sweep's own
            return look_again(*given)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(step, "look_again", look)
    with pytest.raises(UnavailableError):
        bulk_delete(run, HERE)
    assert objects(repo.folder) == before


def test_released_snapshot_cannot_come_back_on_spec_2_unnoticed(repo: Repo) -> None:
    history = read_history(open_reader(repo.uri))
    marked = set(history.snapshots) - {repo.ids["14"]}
    changes = look_again(open_reader(repo.uri), repo.spec, marked, {repo.ids["14"]})
    assert changes.in_use_by is not None
    assert repo.ids["14"] in changes.in_use_by


def test_ref_on_a_snapshot_that_vanished_counts_as_in_use(v1: Repo) -> None:
    reader = open_reader(v1.uri)
    marked = set(read_history(reader).snapshots)
    library = quiet().Repository.open(local_storage(v1.folder))
    library.create_branch("new", library.lookup_branch("main"))
    tip = library.writable_session("new").commit("new", allow_empty=True)
    assert look_again(reader, 1, marked, set()).new == {tip}
    (v1.folder / "snapshots" / tip).unlink()
    changes = look_again(reader, 1, marked, set())
    assert changes.in_use_by is not None
    assert "branch new" in changes.in_use_by
    assert tip in changes.in_use_by


def test_set_of_what_came_to_life_is_asked_at_the_sweep(v1: Repo) -> None:
    # Without a minimum age the open writer's chunk is a candidate; its commit comes before the sweep.
    session = v1.library.writable_session("main")
    change_number(session, 4711)
    run = v1.guarded()
    tip = session.commit("late")
    changes = look_again(open_reader(v1.uri), 1, marked_by(run), set())
    fresh = newly_live(open_reader(v1.uri), changes.new)
    assert changes.new == {tip}
    bulk_delete(run, HERE)
    there = {int.from_bytes(decode_id(name)[:8], "big") for name in objects(v1.folder)["chunks"]}
    assert set(fresh["chunks"].tolist()) <= there


def marked_by(run: Run) -> set[str]:
    summary = run.folder.read_summary(MarkOutput.STEP)
    assert summary is not None
    return read_live_snapshots(run.folder, MarkOutput.of(summary))


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    archived: list[str] = []

    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(self: object, key: str, *more: Any, **named: Any) -> Any:
            if key in archived:
                raise ConfigError(
                    f"{key}: InvalidObjectState the operation is not valid for its storage class"
                )
            return real(self, key, *more, **named)

        return maybe

    for owner, name in ((LocalReader, "get"), (StreamedCopier, "copy")):
        monkeypatch.setattr(owner, name, refusing(getattr(owner, name)))
    return archived.append


def test_what_was_copied_beside_an_archived_manifest_comes_back_and_goes_again(
    v1: Repo, archive: Callable[[str], None], tmp_path: Path
) -> None:
    grown(v1)
    left, before = v1.collected(tmp_path), objects(v1.folder)
    ice = min(before["manifests"] - left["manifests"])
    archive(f"manifests/{ice}")
    asked = {"storage": v1.uri, "run": collect(v1.config(undo="quarantine"))["run_id"], "all": True}
    done = restore(IcechunkRestoreConfig.from_params(asked), LocalRunner(), "a person")
    assert objects(v1.folder) == before
    with pytest.raises(ConfigError, match="InvalidObjectState"):
        collect(v1.config(undo="quarantine"))
    assert objects(v1.folder) == before
    end_pin(open_state(v1.uri), done.run_id, utc_now())
    collect(v1.config(undo="quarantine"))
    assert objects(v1.folder) == {**left, "manifests": left["manifests"] | {ice}}
    assert contents(v1.library, branch="main")[0] == 101
