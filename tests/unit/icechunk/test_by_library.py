"""Expiration of spec 2 through the library."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dredge.errors import ConfigError, FormatError, LeaseHeldError, RefusedError
from dredge.icechunk.expiration.apply import OutcomeDiffersError, differ
from dredge.icechunk.expiration.plan import Applied, plan_expiration
from dredge.icechunk.format.metadata import RepoInfo, instant, parse_repo_info
from dredge.icechunk.history import History
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import (
    Graph,
    build,
    graph_of,
    history_of,
    local_storage,
    micros_of,
    quiet,
    s3_storage,
    scenarios,
)
from tests.support.icechunk_expiring import expire, expire_by_library
from tests.support.objectstore import TestBucket, moto_s3

SAMPLE = scenarios()[0]
LINE = Graph((("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0)), {"main": "3"})


def threshold_at(folder: Path, ids: dict[str, str], time: float) -> datetime:
    snapshots = read_history(open_reader(f"file://{folder}")).snapshots
    known = {float(name): snapshots[node].flushed_at for name, node in ids.items() if node in snapshots}
    if time in known:
        return instant(known[time])
    before = [micros for at, micros in known.items() if at < time]
    after = [micros for at, micros in known.items() if at > time]
    if not before:
        return instant(min(after) - 1_000_000)
    return instant((max(before) + min(after)) // 2) if after else instant(max(before) + 1_000_000)


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["id"])
def test_scenarios_end_through_the_library_as_planned(scenario: dict[str, Any], tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(scenario), 2, chunks=False)
    thresholds = [threshold_at(tmp_path, ids, step["threshold"]) for step in scenario["steps"]]
    observed = scenario["observed"]["spec2"]["steps"]
    for step, threshold, expected in zip(scenario["steps"], thresholds, observed, strict=True):
        applied = expire(
            f"file://{tmp_path}",
            threshold,
            delete_expired_branches=step["delete_expired_branches"],
            delete_expired_tags=step["delete_expired_tags"],
        )
        assert set(applied.plan.released) == {ids[name] for name in expected["released"]}
        history = read_history(open_reader(f"file://{tmp_path}"))
        assert {ref.label: history.ancestry(ref.tip) for ref in history.refs} == {
            label: [ids[name] for name in path] for label, path in expected["ancestry_after"].items()
        }
        assert history.digest == applied.plan.after.digest


def test_library_that_does_something_else_is_an_error_that_names_the_snapshots(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), 2, chunks=False)
    library = quiet().Repository.open(local_storage(tmp_path))
    other = threshold_at(tmp_path, ids, 8.5)

    def wrong(threshold: datetime, branches: bool, tags: bool) -> set[str]:
        return set(library.expire_snapshots(other))

    with pytest.raises(OutcomeDiffersError) as caught:
        expire_by_library(open_reader(f"file://{tmp_path}"), wrong, threshold_at(tmp_path, ids, 3.5))
    assert ids["7"] in str(caught.value)
    assert caught.value.kind == "outcome_differs"


def changed(history: History, **facts: Any) -> History:
    snapshots = {**history.snapshots, "4": structs.replace(history.snapshots["4"], **facts)}
    return replace(history, snapshots=snapshots)


def test_every_difference_between_an_outcome_and_its_plan_is_told() -> None:
    line = (("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0), ("4", "3", 4.0))
    before = history_of(Graph(line, {"main": "4"}, {"t": "4"}), 2)
    plan = plan_expiration(before, instant(micros_of(2.5)))
    after, released = plan.after, set(plan.released)
    assert released == {"1", "2"}
    others = {name: entry for name, entry in after.snapshots.items() if name != "4"}
    more = {**after.snapshots, "1": before.snapshots["1"]}
    for found, ids, told in (
        (after, released, []),
        (after, {"1"}, ["2"]),
        (after, released | {"3"}, ["3"]),
        (replace(after, snapshots=others), released, ["'4 "]),
        (replace(after, snapshots=more), released, ["'1 "]),
        (changed(after, parent_id="0"), released, ["'4 3", "'4 0"]),
        (changed(after, pruned=("1",)), released, ["'4 ", "'4 "]),
        (changed(after, flushed_at=7), released, ["'4 ", "'4 "]),
        (replace(after, tags={}), released, ["'tag:t "]),
        (replace(after, branches={"main": "4", "b": "4"}), released, ["'branch:b "]),
    ):
        sentences = differ(plan, found, ids)
        assert len(sentences) == len(told)
        assert all(said.startswith(words) for said, words in zip(sentences, told, strict=True))


def test_an_expiration_that_left_no_record_is_no_success(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), 2, chunks=False)
    with pytest.raises(FormatError):
        expire_by_library(
            open_reader(f"file://{tmp_path}"), lambda *_: set(), threshold_at(tmp_path, ids, 7.5)
        )


def test_a_repository_of_spec_1_is_not_expired_by_the_library(tmp_path: Path) -> None:
    build(local_storage(tmp_path), graph_of(SAMPLE), 1, chunks=False)
    with pytest.raises(ConfigError):
        expire_by_library(open_reader(f"file://{tmp_path}"), lambda *_: set(), datetime.now(UTC))


def test_commits_between_plan_and_expiration_are_no_difference(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), 2, chunks=False)
    library = quiet().Repository.open(local_storage(tmp_path))

    def busy(threshold: datetime, branches: bool, tags: bool) -> set[str]:
        library.writable_session("main").commit("before", allow_empty=True)
        released = set(library.expire_snapshots(threshold))
        library.writable_session("main").commit("after", allow_empty=True)
        library.create_tag("late", ids["14"])
        return released

    applied = expire_by_library(open_reader(f"file://{tmp_path}"), busy, threshold_at(tmp_path, ids, 7.5))
    assert {ids[name] for name in "12467"} == set(applied.plan.released)


@pytest.mark.parametrize("is_approved", [True, False])
def test_what_nobody_approved_and_the_library_did_is_told(tmp_path: Path, is_approved: bool) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), 2, chunks=False)
    library = quiet().Repository.open(local_storage(tmp_path))
    threshold = threshold_at(tmp_path, ids, 7.5)
    reader = open_reader(f"file://{tmp_path}")
    approved = plan_expiration(read_history(reader), threshold)

    def less_held(threshold: datetime, branches: bool, tags: bool) -> set[str]:
        library.delete_tag("tag1")
        return set(library.expire_snapshots(threshold))

    def run() -> Applied:
        digest = approved.digest if is_approved else None
        return expire_by_library(reader, less_held, threshold, approved_digest=digest)

    if is_approved:
        with pytest.raises(OutcomeDiffersError, match=f"released {ids['3']}.*without approval") as caught:
            run()
        assert ids["1"] not in str(caught.value)
    else:
        assert ids["3"] in run().plan.released


def test_read_only_repository_is_refused_before_anything(tmp_path: Path) -> None:  # E16
    icechunk = quiet()
    library = icechunk.Repository.create(local_storage(tmp_path), spec_version=2)
    library.set_status(icechunk.RepoStatus(availability=icechunk.RepoAvailability.read_only))
    before = (tmp_path / "repo").read_bytes()
    with pytest.raises(RefusedError, match="read-only"):
        expire(f"file://{tmp_path}", datetime.now(UTC))
    assert (tmp_path / "repo").read_bytes() == before


def test_approved_plan_is_applied_and_no_other(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), 2, chunks=False)
    threshold = threshold_at(tmp_path, ids, 7.5)
    plan = plan_expiration(read_history(open_reader(f"file://{tmp_path}")), threshold)
    quiet().Repository.open(local_storage(tmp_path)).create_branch("new", ids["14"])
    with pytest.raises(RefusedError):
        expire(f"file://{tmp_path}", threshold, approved_digest=plan.digest)
    again = plan_expiration(read_history(open_reader(f"file://{tmp_path}")), threshold)
    assert expire(f"file://{tmp_path}", threshold, approved_digest=again.digest).plan.digest == again.digest


def test_an_expiration_without_a_copy_of_the_state_before_it_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = build(local_storage(tmp_path), LINE, 2, chunks=False)
    library = quiet().Repository.open(local_storage(tmp_path))

    def without_copies(data: bytes, *_: str) -> RepoInfo:
        info = parse_repo_info(data)
        return structs.replace(
            info, updates=tuple(structs.replace(item, backup=None) for item in info.updates)
        )

    monkeypatch.setattr("dredge.icechunk.format.metadata.parse_repo_info", without_copies)
    with pytest.raises(FormatError):
        expire_by_library(
            open_reader(f"file://{tmp_path}"),
            lambda threshold, *_: set(library.expire_snapshots(threshold)),
            threshold_at(tmp_path, ids, 2.5),
        )


@pytest.mark.parametrize("spec", [1, 2])
def test_one_maintenance_run_works_on_a_repository_at_a_time(spec: int, tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), graph_of(SAMPLE), spec, chunks=False)
    uri = f"file://{tmp_path}"
    threshold = threshold_at(tmp_path, ids, 7.5)
    before = read_history(open_reader(uri)).digest
    lease = make_lease(open_state(uri))
    grant = lease.acquire("a collection")
    with pytest.raises(LeaseHeldError):
        expire(uri, threshold)
    assert read_history(open_reader(uri)).digest == before
    expire(uri, threshold, lease=grant)
    lease.check(grant)
    lease.release(grant)
    assert expire(uri, threshold).plan.is_empty


@pytest.fixture(scope="module")
def bucket() -> Iterator[TestBucket]:
    with moto_s3() as found:
        yield found


def test_commits_on_s3_during_an_expiration_are_kept_and_the_outcome_still_compares(
    bucket: TestBucket,
) -> None:
    ids = build(s3_storage(bucket.options, bucket.bucket, "two"), graph_of(SAMPLE), 2, chunks=False)
    uri = f"{bucket.uri}/two"
    history = read_history(open_reader(uri, bucket.options))
    middle = (history.snapshots[ids["7"]].flushed_at + history.snapshots[ids["8"]].flushed_at) // 2
    committed: list[str] = []

    def commit() -> None:
        library = quiet().Repository.open(s3_storage(bucket.options, bucket.bucket, "two"))
        for number in range(10):
            committed.append(library.writable_session("develop").commit(f"late {number}", allow_empty=True))

    thread = threading.Thread(target=commit)
    thread.start()
    applied = expire(uri, instant(middle), options=bucket.options)
    thread.join()
    after = read_history(open_reader(uri, bucket.options))
    assert after.ancestry(after.branches["develop"])[: len(committed)] == committed[::-1]
    assert {ids[name] for name in "12467"} == set(applied.plan.released)
    assert differ(applied.plan, applied.plan.after, set(applied.plan.released)) == []
