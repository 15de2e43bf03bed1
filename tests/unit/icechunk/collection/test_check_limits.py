"""Guards: limits, canaries, absent objects."""

import random
import shutil
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dredge.errors import AwaitingApprovalError, FormatError, RefusedError
from dredge.icechunk.collection import check_limits as step
from dredge.icechunk.collection import index
from dredge.icechunk.collection.absent import AbsentChunk
from dredge.icechunk.collection.check_limits import GUARD, sample_canaries
from dredge.icechunk.collection.list_candidates.listing import ListTask
from dredge.icechunk.collection.outputs import ListCandidatesOutput, MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import (
    bulk_delete,
    check_limits,
    collect,
    list_candidates,
    mark,
    release_lease,
)
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import NATIVE, NamedChunks, parse_manifest
from dredge.icechunk.format.metadata import instant, parse_repo_info
from dredge.icechunk.ids import decode_id, encode_ids
from dredge.icechunk.maintenance import make_lease
from dredge.icechunk.repository import read_history
from dredge.runs.limits import FIRST_OBJECTS_MAX
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo, change_number, flip_chunk_id, grown, main_manifest, optimized

HERE = LocalRunner()


def test_limits_hold_a_run_and_only_warn_in_a_dry_run(repo: Repo) -> None:
    before, lease = objects(repo.folder), repo.folder / "_dredge" / "lease.json"
    with pytest.raises(RefusedError, match="max_objects"):
        collect(repo.config(max_delete_objects=3))
    lease.unlink()  # the run waits for an answer
    with pytest.raises(RefusedError, match="max_percent"):
        collect(repo.config(max_delete_percent=1))
    lease.unlink()
    with pytest.raises(RefusedError, match="max_bytes"):
        collect(repo.config(max_delete_bytes=10))
    lease.unlink()
    assert objects(repo.folder) == before
    report = collect(repo.config(max_delete_objects=3, dry_run=True))
    assert any("max_objects" in warning for warning in report["warnings"])
    run = repo.plan()
    mark(run, HERE)
    list_candidates(run, HERE)
    with pytest.raises(RefusedError, match="check_limits"):
        bulk_delete(run, HERE)


@pytest.mark.parametrize(("undo", "asks"), [("off", True), ("quarantine", False)])
def test_the_first_run_without_undo_asks_beyond_a_thousand_objects(v1: Repo, undo: str, asks: bool) -> None:
    planted = [v1.folder / "chunks" / f"{number:019d}0" for number in range(FIRST_OBJECTS_MAX + 1)]
    for path in planted:
        path.write_bytes(b"x")
    if asks:
        with pytest.raises(AwaitingApprovalError):
            collect(v1.config(undo=undo))
        assert all(path.exists() for path in planted)
    else:
        collect(v1.config(undo=undo))
        assert not any(path.exists() for path in planted)


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize("kind", ["snapshots", "transactions", "manifests", "chunks"])
def test_candidates_that_were_counted_but_not_written_or_not_counted_stop_the_run(
    v1: Repo, kind: str, more: int
) -> None:
    run = v1.plan()
    mark(run, HERE)
    found, figure = list_candidates(run, HERE), f"{kind}_candidates_objects"
    run.folder.write_summary(replace(found, counts={**found.counts, figure: found.counts[figure] + more}))
    with pytest.raises(RefusedError, match=f"{kind}_complete"):
        check_limits(run)


@pytest.mark.parametrize(("live", "verdict"), [(0, "refused"), (1, "passed")])
def test_mark_that_found_nothing_live_stops_the_run(v1: Repo, live: int, verdict: str) -> None:
    run = v1.plan(dry_run=True)
    found = mark(run, HERE)
    list_candidates(run, HERE)
    run.folder.write_summary(replace(found, counts={**found.counts, "live_snapshots": live}))
    if verdict == "refused":
        with pytest.raises(RefusedError, match="live_not_empty"):
            check_limits(run)
    else:
        assert check_limits(run).details["verdict"] == "passed"


def test_share_of_an_optimized_run_is_of_all_chunks_that_the_clean_run_left(v1: Repo) -> None:
    run = optimized(grown(v1), dry_run=True)
    mark(run, HERE)
    listed = ListCandidatesOutput.of(list_candidates(run, HERE))
    assert run.base is not None
    chunks = run.base.state.chunk_objects
    assert listed.count("chunks", "listed_objects") > 0
    others = sum(listed.count(kind, "listed_objects") for kind in ("snapshots", "transactions", "manifests"))
    assert check_limits(run).counts["listed_objects"] == chunks + others


def test_lease_that_is_lost_while_the_guards_are_asked_is_a_refusal(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = v1.listed()
    real = step.canaries_among

    def overtaken(run: Run, keys: list[str], candidates: ListCandidatesOutput) -> list[str]:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
        return real(run, keys, candidates)

    monkeypatch.setattr(step, "canaries_among", overtaken)
    with pytest.raises(RefusedError, match="lease_held"):
        check_limits(run)
    assert run.folder.read_json(GUARD)["verdict"] == "refused"


def test_canary_among_the_candidates_stops_the_run(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fast loop that loses references is found by the other way of reading.
    real = index.named_chunks
    monkeypatch.setattr(
        index, "named_chunks", lambda *file, **said: NamedChunks(real(*file, **said).native[:0])
    )
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="chunks/"):
        collect(repo.config())
    assert objects(repo.folder) == before


def needed_by_tips(repo: Repo) -> tuple[set[str], set[str], set[str]]:
    tips = {ref.tip for ref in read_history(open_reader(repo.uri)).refs}
    manifests = {f"manifests/{info.id}" for tip in tips for info in repo.library.list_manifest_files(tip)}
    chunks: set[str] = set()
    for manifest in manifests:
        arrays = parse_manifest((repo.folder / manifest).read_bytes(), manifest).arrays
        names = [encode_ids(array.ids[array.kind == NATIVE]).to_pylist() for array in arrays]
        chunks |= {f"chunks/{name}" for some in names for name in some}
    return {f"snapshots/{tip}" for tip in tips}, manifests, chunks


def kinds(keys: Collection[str]) -> dict[str, set[str]]:
    return {
        kind: {key for key in keys if key.startswith(f"{kind}/")}
        for kind in ("snapshots", "manifests", "chunks")
    }


def test_manifests_that_are_too_large_to_read_are_canaries_themselves(repo: Repo) -> None:
    tips, manifests, chunks = needed_by_tips(repo)
    refs = {
        f"manifests/{info.id}": info.num_chunk_refs
        for tip in tips
        for info in repo.library.list_manifest_files(tip.removeprefix("snapshots/"))
    }
    run = repo.plan(dry_run=True)
    assert kinds(sample_canaries(run, max(refs.values())))["chunks"] == chunks
    assert kinds(sample_canaries(run, min(refs.values()) - 1)) == {
        "snapshots": tips,
        "manifests": manifests,
        "chunks": set(),
    }


def test_canaries_of_a_preview_are_those_of_the_refs_that_will_be_left(repo: Repo) -> None:
    history = read_history(open_reader(repo.uri))
    latest = max(entry.flushed_at for entry in history.snapshots.values())
    after = Expiration(
        threshold=instant(latest + 1).isoformat(), delete_expired_branches=True, delete_expired_tags=True
    )
    tips = kinds(sample_canaries(repo.plan(dry_run=True, after=after)))["snapshots"]
    assert tips == {f"snapshots/{history.branches['main']}"}


@pytest.mark.parametrize("seed", range(8))
def test_flipped_chunk_id_holds_the_run_and_the_true_chunk_stays(repo: Repo, seed: int) -> None:
    chunk = flip_chunk_id(repo.folder, random.Random(seed))
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="chunks_present"):
        collect(repo.config())
    assert objects(repo.folder) == before
    assert chunk in before["chunks"]


def test_chunk_lost_earlier_holds_too_until_nothing_names_it(repo: Repo) -> None:
    (array,) = parse_manifest(main_manifest(repo.folder).read_bytes(), main_manifest(repo.folder).name).arrays
    from dredge.icechunk.ids import encode_ids

    lost = encode_ids(array.ids[array.coords[:, 0] == 0])[0].as_py()
    (repo.folder / "chunks" / lost).unlink()
    with pytest.raises(RefusedError, match=f"chunks/{lost}"):
        collect(repo.config())
    # Written again, and the snapshots that need the lost one expired, nothing names it any more.
    session = repo.library.writable_session("main")
    change_number(session, 4711)
    tip = session.commit("again")
    written = read_history(open_reader(repo.uri)).snapshots[tip].flushed_at
    expire(repo.uri, instant(written), delete_expired_tags=True, delete_expired_branches=True)
    assert collect(repo.config())["outcome"] == "success"
    assert contents(repo.library, branch="main")[0] == 4711


def test_keep_chunks_collects_everything_else_and_no_chunk(repo: Repo) -> None:
    chunk = flip_chunk_id(repo.folder, random.Random(2))
    before = objects(repo.folder)
    report = collect(repo.config(keep_chunks=True))
    after = objects(repo.folder)
    assert after["chunks"] == before["chunks"] >= {chunk}
    assert len(before["snapshots"] - after["snapshots"]) == 5
    assert len(before["manifests"] - after["manifests"]) == 5
    assert report["kinds"]["chunks"]["spared_objects"] == 6  # the five, and the one that is misnamed
    assert ("chunks", "kept", 6) in {(row["kind"], row["verdict"], row["objects"]) for row in report["rows"]}


def test_chunk_that_the_listing_left_out_is_asked_for_by_name(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ListTask.list

    def forgetful(names: ListTask, reader: Any) -> Any:
        for number, batch in enumerate(real(names, reader)):
            yield batch.slice(1) if names.prefix == "chunks/" and not number else batch

    before = objects(repo.folder)
    unlisted = min(before["chunks"])
    monkeypatch.setattr(ListTask, "list", forgetful)
    report = collect(repo.config())
    assert report["outcome"] == "success"
    assert unlisted in objects(repo.folder)["chunks"]


def test_index_that_learned_from_a_damaged_read_says_so(repo: Repo) -> None:
    path = main_manifest(repo.folder)
    sound = path.read_bytes()
    flip_chunk_id(repo.folder, random.Random(3))
    collect(repo.config(dry_run=True))
    path.write_bytes(sound)
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="/_dredge/index"):
        collect(repo.config())
    assert objects(repo.folder) == before
    shutil.rmtree(repo.folder / "_dredge" / "index")
    assert collect(repo.config())["outcome"] == "success"


def test_misnamed_log_of_an_expired_ancestor_holds_the_run(v2: Repo) -> None:
    folder = v2.folder
    opened = open_file((folder / "repo").read_bytes(), "repo", FileType.REPO_INFO)
    counted = [
        log for entry in parse_repo_info((folder / "repo").read_bytes()).snapshots for log in entry.pruned
    ]
    log = next(log for log in counted if counted.count(log) == 1)
    raw = decode_id(log)
    body = bytearray(opened.body)
    at = body.index(raw)
    while body.find(raw, at + 1) >= 0:  # the operations log may name it, too
        at = body.index(raw, at + 1)
    body[at + 3] ^= 4
    (folder / "repo").write_bytes(close_file(opened.header, bytes(body)))
    assert log not in {
        one for entry in parse_repo_info((folder / "repo").read_bytes()).snapshots for one in entry.pruned
    }
    before = objects(folder)
    with pytest.raises(RefusedError, match="transactions_present"):
        collect(v2.config())
    assert objects(folder) == before
    collect(v2.config(keep_transactions=True))
    assert objects(folder)["transactions"] == before["transactions"]


type Named = tuple[str, str, tuple[int, ...]]


@pytest.fixture
def run(repo: Repo) -> Run:
    return repo.listed(dry_run=True)


def outputs(run: Run) -> tuple[MarkOutput, ListCandidatesOutput]:
    mark, listed = (run.folder.read_summary(step) for step in (MarkOutput.STEP, ListCandidatesOutput.STEP))
    assert mark is not None
    assert listed is not None
    return MarkOutput.of(mark), ListCandidatesOutput.of(listed)


def references(repo: Repo, manifests: Iterable[str]) -> set[Named]:
    found = set()
    for manifest in manifests:
        for array in parse_manifest((repo.folder / "manifests" / manifest).read_bytes(), manifest).arrays:
            for row in np.flatnonzero(array.kind == NATIVE).tolist():
                name = encode_ids(array.ids[row : row + 1])[0].as_py()
                found.add((name, manifest, tuple(array.coords[row].tolist())))
    return found


def chunk(name: str, manifest: str = "M", node_id: str = "N") -> AbsentChunk:
    return AbsentChunk(f"chunks/{name}", manifest, node_id, (2, 3))
