"""Live objects that are not in the store stop a run: the true ones may be among the candidates."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.icechunk.collection import canaries, listing, marking
from dredge.icechunk.collection.by_library import collect_by_library
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.guards import check_limits
from dredge.icechunk.collection.plan import Context, plan_collection
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import NATIVE, Manifest, parse_manifest
from dredge.icechunk.format.repo_info import parse_repo_info
from dredge.icechunk.format.snapshots import instant, parse_snapshot
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_reader
from tests.support.icechunk import build, contents, graph_of, local_storage, objects, quiet, scenarios

SAMPLE = scenarios()[0]
HERE = LocalRunner()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    made = {}
    for spec in (1, 2):
        made[spec] = tmp_path_factory.mktemp("made") / "repo"
        ids = build(local_storage(made[spec]), graph_of(SAMPLE), spec)
        times = read_history(open_reader(f"file://{made[spec]}")).snapshots
        expire(
            f"file://{made[spec]}", instant((times[ids["7"]].flushed_at + times[ids["8"]].flushed_at) // 2)
        )
    return made


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest, both: dict[int, Path], tmp_path: Path) -> Path:
    shutil.copytree(both[request.param], tmp_path / "repo")
    return tmp_path / "repo"


def config(folder: Path, **changes: Any) -> CollectConfig:
    settings = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0} | changes
    return CollectConfig(uri=f"file://{folder}", **settings)


def main_manifest(folder: Path) -> Path:
    tip = read_history(open_reader(f"file://{folder}")).branches["main"]
    (info,) = parse_snapshot((folder / "snapshots" / tip).read_bytes(), tip).manifests
    return folder / "manifests" / info.id


def flip_chunk_id(folder: Path, rng: random.Random) -> str:
    """Turn one bit of the id of a chunk that main needs; gives the chunk's name."""
    path = main_manifest(folder)
    opened = open_file(path.read_bytes(), path.name, FileType.MANIFEST)
    (array,) = parse_manifest(path.read_bytes(), path.name).arrays
    raw = rng.choice(array.ids[array.kind == NATIVE].tolist())
    at = opened.body.index(bytes(raw)) + rng.randrange(8)
    body = bytearray(opened.body)
    body[at] ^= 1 << rng.randrange(8)
    path.write_bytes(close_file(opened.header, bytes(body)))
    from dredge.icechunk.ids import encode_id

    return encode_id(bytes(raw))


@pytest.mark.parametrize("seed", range(8))
def test_flipped_chunk_id_holds_the_run_and_the_true_chunk_stays(repo: Path, seed: int) -> None:
    chunk = flip_chunk_id(repo, random.Random(seed))
    before = objects(repo)
    with pytest.raises(
        RefusedError, match=r"chunks_present: chunks that .* does not have: 1, such as chunks/"
    ):
        collect(config(repo))
    assert objects(repo) == before
    assert chunk in before["chunks"]


def test_message_names_the_chunk_the_array_and_the_ways_out(repo: Path) -> None:
    flip_chunk_id(repo, random.Random(1))
    with pytest.raises(RefusedError) as caught:
        collect(config(repo))
    text = str(caught.value)
    assert f"of /numbers, by manifests/{main_manifest(repo).name})" in text
    for words in (
        "(chunk ",
        "let the snapshots that need them expire",
        "--keep-chunks",
        "Nothing was deleted",
    ):
        assert words in text
    assert "Raise the limit" not in text


def test_dry_run_warns_that_a_run_would_be_held(repo: Path) -> None:
    flip_chunk_id(repo, random.Random(1))
    report = collect(config(repo, dry_run=True))
    assert any(
        "would await approval: run" in line and "chunks_present" in line for line in report["warnings"]
    )


def test_chunk_lost_earlier_holds_too_until_nothing_names_it(repo: Path) -> None:
    (array,) = parse_manifest(main_manifest(repo).read_bytes(), main_manifest(repo).name).arrays
    from dredge.icechunk.ids import encode_ids

    lost = encode_ids(array.ids[array.coords[:, 0] == 0])[0].as_py()
    (repo / "chunks" / lost).unlink()
    with pytest.raises(RefusedError, match=rf"chunks/{lost} \(chunk 0 of /numbers"):
        collect(config(repo))
    # Written again, and the snapshots that need the lost one expired, nothing names it any more.
    import zarr

    library = quiet().Repository.open(local_storage(repo))
    session = library.writable_session("main")
    zarr.open_array(session.store, path="numbers")[0] = 4711
    tip = session.commit("again")
    written = read_history(open_reader(f"file://{repo}")).snapshots[tip].flushed_at
    expire(f"file://{repo}", instant(written), delete_expired_tags=True, delete_expired_branches=True)
    assert collect(config(repo))["outcome"] == "success"
    assert contents(quiet().Repository.open(local_storage(repo)), branch="main")[0] == 4711


def test_keep_chunks_collects_everything_else_and_no_chunk(repo: Path) -> None:
    chunk = flip_chunk_id(repo, random.Random(2))
    before = objects(repo)
    report = collect(config(repo, keep_chunks=True))
    after = objects(repo)
    assert after["chunks"] == before["chunks"] >= {chunk}
    assert len(before["snapshots"] - after["snapshots"]) == 5
    assert len(before["manifests"] - after["manifests"]) == 5
    assert report["kinds"]["chunks"]["spared_objects"] == 6  # the five, and the one that is misnamed
    assert ("chunks", "kept", 6) in {(row["kind"], row["verdict"], row["objects"]) for row in report["rows"]}
    with pytest.raises(ConfigError, match="kept only by Dredge's own collection"):
        collect_by_library(config(repo, keep_chunks=True))


def test_chunk_that_the_listing_left_out_is_asked_for_by_name(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = listing._listed

    def forgetful(reader: Any, task: Any) -> Any:
        for number, batch in enumerate(real(reader, task)):
            yield batch.slice(1) if task["kind"] == "chunks" and not number else batch

    before = objects(repo)
    unlisted = min(before["chunks"])
    monkeypatch.setattr(listing, "_listed", forgetful)
    report = collect(config(repo))
    assert report["outcome"] == "success"
    assert unlisted in objects(repo)["chunks"]


def test_index_that_learned_from_a_damaged_read_says_so(repo: Path) -> None:
    path = main_manifest(repo)
    sound = path.read_bytes()
    flip_chunk_id(repo, random.Random(3))
    collect(config(repo, dry_run=True))
    path.write_bytes(sound)
    before = objects(repo)
    with pytest.raises(FormatError, match=r"Remove the folder .*/_dredge/index"):
        collect(config(repo))
    assert objects(repo) == before
    shutil.rmtree(repo / "_dredge" / "index")
    assert collect(config(repo))["outcome"] == "success"


def test_index_of_an_earlier_reader_is_not_believed(repo: Path) -> None:
    collect(config(repo, dry_run=True))
    heads = repo / "_dredge" / "index" / "heads"
    import hashlib

    for path in list(heads.iterdir()):
        value = json.loads(path.read_bytes())
        del value["format"]
        data = json.dumps(value, sort_keys=True).encode()
        path.unlink()
        stem = path.stem.rpartition("-")[0]
        (heads / f"{stem}-{hashlib.sha256(data).hexdigest()}.json").write_bytes(data)
    context = Context.open(plan_collection(config(repo, dry_run=True)).run_uri)
    assert marking.mark(context, HERE).counts["manifests_read"] == 9


def test_misnamed_log_of_an_expired_ancestor_holds_the_run(both: dict[int, Path], tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    shutil.copytree(both[2], folder)
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
    with pytest.raises(
        RefusedError, match="transaction logs that live files name and the store does not have: 1"
    ):
        collect(config(folder))
    assert objects(folder) == before
    collect(config(folder, keep_transactions=True))
    assert objects(folder)["transactions"] == before["transactions"]


def test_manifest_that_says_fewer_references_than_its_snapshot_is_refused(repo: Path) -> None:
    path = main_manifest(repo)
    tip = read_history(open_reader(f"file://{repo}")).branches["main"]
    place = repo / "snapshots" / tip
    opened = open_file(place.read_bytes(), tip, FileType.SNAPSHOT)
    (info,) = parse_snapshot(place.read_bytes(), tip).manifests
    body = bytearray(opened.body)
    counts = [at for at in range(0, len(body), 4) if body[at : at + 4] == info.refs.to_bytes(4, "little")]
    before = objects(repo)
    changed = 0
    for at in counts:
        wrong = bytearray(body)
        wrong[at] ^= 32
        data = close_file(opened.header, bytes(wrong))
        try:
            if parse_snapshot(data, tip).manifests[0].refs == info.refs:
                continue
        except FormatError:
            continue
        changed += 1
        place.write_bytes(data)
        shutil.rmtree(repo / "_dredge")
        with pytest.raises(FormatError, match="chunk references"):
            collect(config(repo))
    assert changed == 1
    assert objects(repo) == before
    assert path.exists()


def test_guard_asks_nothing_when_everything_is_there(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dredge.icechunk.collection import absent

    monkeypatch.setattr(absent, "_named_in_manifests", None)
    context = Context.open(plan_collection(config(repo, dry_run=True)).run_uri)
    marking.mark(context, HERE)
    listing.find_candidates(context, HERE)
    assert check_limits(context).details["verdict"] == "passed"


def test_manifest_left_without_arrays_is_refused(repo: Path) -> None:
    path = main_manifest(repo)
    body = (16).to_bytes(4, "little") + bytes(4) + bytes([6, 0, 16, 0, 4, 0, 0, 0])
    body += (8).to_bytes(4, "little") + decode_id(path.name)
    path.write_bytes(close_file(path.read_bytes()[:39], body))
    assert parse_manifest(path.read_bytes(), path.name).arrays == ()
    before = objects(repo)
    with pytest.raises(FormatError, match=rf"{path.name}: damaged: has 0 chunk references; snapshots say"):
        collect(config(repo))
    assert objects(repo) == before


def test_manifest_without_arrays_gives_no_canaries(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context.open(plan_collection(config(repo, dry_run=True)).run_uri)
    monkeypatch.setattr(canaries, "parse_manifest", lambda data, key: Manifest("", 1, ()))
    assert {key.partition("/")[0] for key in canaries.sample(context)} == {"snapshots", "manifests"}
