"""Live objects that are not in the store stop a run: the true ones may be among the candidates."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.icechunk.collection.list_candidates.listing import NameRange
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.format.envelope import FileType, close_file, open_file
from dredge.icechunk.format.manifests import NATIVE, parse_manifest
from dredge.icechunk.format.repo_info import parse_repo_info
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.ids import decode_id
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo, change_number, main_manifest


def flip_chunk_id(folder: Path, rng: random.Random) -> str:
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
def test_flipped_chunk_id_holds_the_run_and_the_true_chunk_stays(repo: Repo, seed: int) -> None:
    chunk = flip_chunk_id(repo.folder, random.Random(seed))
    before = objects(repo.folder)
    with pytest.raises(RefusedError, match="chunks_present"):
        collect(repo.config())
    assert objects(repo.folder) == before
    assert chunk in before["chunks"]


def test_message_names_the_chunk_the_array_and_the_ways_out(repo: Repo) -> None:
    flip_chunk_id(repo.folder, random.Random(1))
    with pytest.raises(RefusedError) as caught:
        collect(repo.config())
    text = str(caught.value)
    assert f"of /numbers, by manifests/{main_manifest(repo.folder).name})" in text
    for words in (
        "(chunk ",
        "let the snapshots that need them expire",
        "--keep-chunks",
        "Nothing was deleted",
    ):
        assert words in text


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
    real = NameRange.list

    def forgetful(names: NameRange, reader: Any) -> Any:
        for number, batch in enumerate(real(names, reader)):
            yield batch.slice(1) if names.prefix == "chunks/" and not number else batch

    before = objects(repo.folder)
    unlisted = min(before["chunks"])
    monkeypatch.setattr(NameRange, "list", forgetful)
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
