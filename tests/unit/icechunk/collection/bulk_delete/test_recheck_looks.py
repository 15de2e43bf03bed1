"""A look at the refs tells all that is new since the mark, and any way on which a candidate is reached."""

from __future__ import annotations

import pytest

from dredge.errors import DredgeError, FormatError, RefusedError, UnavailableError
from dredge.icechunk.collection.bulk_delete.recheck import error_of_stop, find_use, look_again, newly_live
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.ids import hash_of, hashes_of
from dredge.icechunk.repository import read_history
from dredge.runs.watch import Watch
from dredge.storage import open_reader
from tests.support.icechunk import ROOT_ID
from tests.support.icechunk_repo import Repo


def reached(repo: Repo) -> set[str]:
    return set(read_history(open_reader(repo.uri)).snapshots)


def tips(repo: Repo) -> set[str]:
    return {ref.tip for ref in read_history(open_reader(repo.uri)).refs}


@pytest.mark.parametrize("known", ["nothing", "the root", "all but the tips", "all"])
def test_everything_that_the_mark_did_not_know_is_new(repo: Repo, known: str) -> None:
    whole = reached(repo)
    marked = {"nothing": set(), "the root": {ROOT_ID}, "all but the tips": whole - tips(repo), "all": whole}[
        known
    ]
    changes = look_again(open_reader(repo.uri), repo.spec, marked, {repo.ids["7"]})
    assert changes.in_use_by is None
    assert changes.new == whole - marked


def test_way_from_a_ref_to_a_candidate_is_found_however_long_it_is(v1: Repo) -> None:
    changes = look_again(open_reader(v1.uri), 1, set(), {ROOT_ID})
    assert changes.in_use_by is not None
    assert changes.in_use_by.endswith(f", which reaches {ROOT_ID}")
    assert look_again(open_reader(v1.uri), 1, {*tips(v1)}, {ROOT_ID}).in_use_by is None


def test_candidate_that_the_repo_info_lists_is_in_use(v2: Repo) -> None:
    whole = reached(v2)
    changes = look_again(open_reader(v2.uri), 2, whole - {ROOT_ID}, {ROOT_ID, v2.ids["7"]})
    assert changes.in_use_by == f"the repo info, which lists {ROOT_ID}"
    assert changes.new == {ROOT_ID}


def test_look_while_workers_delete_says_why_they_must_stop(repo: Repo) -> None:
    run = repo.plan()
    whole = reached(repo)
    assert find_use(run, whole, {repo.ids["7"]}) is None
    text = find_use(run, whole - tips(repo), {min(tips(repo))})
    assert text is not None
    assert f"run {run.plan.run_id}: a snapshot that was to be deleted is in use again by" in text


def test_what_new_snapshots_name_is_alive_by_kind(repo: Repo) -> None:
    new = sorted(tips(repo))
    manifests = {info.id for node in new for info in repo.library.list_manifest_files(node)}
    chunks: set[int] = set()
    for manifest in manifests:
        arrays = parse_manifest((repo.folder / "manifests" / manifest).read_bytes(), manifest).arrays
        chunks |= {int(one) for array in arrays for one in hashes_of(array.ids[array.kind == NATIVE])}
    found = {kind: ids.tolist() for kind, ids in newly_live(open_reader(repo.uri), new).items()}
    assert found == {
        "snapshots": sorted(map(hash_of, new)),
        "transactions": sorted(map(hash_of, new)),
        "manifests": sorted(map(hash_of, manifests)),
        "chunks": sorted(chunks),
        "overwritten": [],
    }
    assert all(len(ids) == 0 for ids in newly_live(open_reader(repo.uri), []).values())


@pytest.fixture
def stopped(v1: Repo) -> tuple[Run, Watch]:
    run = v1.plan()
    return run, Watch(run.folder, run.state, "bulk_delete/_watch/001.json", lambda: None)


@pytest.mark.parametrize(
    ("error", "found", "expected", "text"),
    [
        (FormatError("torn"), None, FormatError, "torn"),
        (FormatError("torn"), "in use", FormatError, "torn"),
        (ZeroDivisionError("a bug"), "in use", UnavailableError, r"refs could not be looked at \(a bug\)"),
        (ZeroDivisionError("a bug"), None, UnavailableError, r"refs could not be looked at \(a bug\)"),
        (None, "in use", RefusedError, "in use"),
        (None, None, UnavailableError, "nobody had looked at the refs for too long"),
    ],
)
def test_sweep_that_stopped_says_what_the_driver_saw(
    stopped: tuple[Run, Watch],
    error: Exception | None,
    found: str | None,
    expected: type[DredgeError],
    text: str,
) -> None:
    run, watch = stopped
    watch.error, watch.found = error, found
    given = error_of_stop(run, watch)
    assert type(given) is expected
    with pytest.raises(expected, match=text):
        raise given
