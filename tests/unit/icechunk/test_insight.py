"""What a ref and a snapshot cost, and why an object is kept."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dredge import cli
from dredge.errors import ConfigError
from dredge.icechunk.insight import find_why, measure_cost
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import Graph, build, local_storage, objects, quiet
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo

FORK = Graph((("1", "0", 1.0), ("2", "1", 2.0), ("3", "1", 3.0)), {"main": "2", "side": "3"}, {"v1": "1"})


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", build(local_storage(tmp_path / "repo"), FORK, request.param))


def size_of(
    repo: Repo, prefixes: tuple[str, ...] = ("snapshots", "manifests", "transactions", "chunks")
) -> int:
    return sum(path.stat().st_size for name in prefixes for path in (repo.folder / name).rglob("*"))


def only(repo: Repo, name: str) -> set[str]:
    """Keys that are needed without a branch, less those needed after it is deleted and expired."""
    before = {f"{kind}/{key}" for kind, keys in objects(repo.folder).items() for key in keys}
    repo.library.delete_branch(name)
    expire(repo.uri, datetime.now(UTC))
    repo.collect()
    return before - {f"{kind}/{key}" for kind, keys in objects(repo.folder).items() for key in keys}


def test_the_bytes_of_a_branch_are_those_that_go_with_it(repo: Repo) -> None:
    reader = open_reader(repo.uri)
    cost = measure_cost(reader, read_history(reader))
    assert (cost.size_bytes, cost.unreachable_objects) == (size_of(repo), 0)
    shares = {share.owner: share for share in cost.refs}
    assert set(shares) == {"branch:main", "branch:side", "tag:v1"}
    assert [shares[name].snapshots for name in ("branch:main", "branch:side", "tag:v1")] == [1, 1, 0]
    assert sum(share.snapshots for share in cost.snapshots) == 4

    sizes = {str(path.relative_to(repo.folder)): path.stat().st_size for path in repo.folder.rglob("*/*")}
    gone = {key for key in only(repo, "side") if not key.startswith("overwritten/")}
    assert (shares["branch:side"].objects, shares["branch:side"].size_bytes) == (
        len(gone),
        sum(sizes[key] for key in gone),
    )


def test_a_chunk_is_kept_by_the_snapshots_and_refs_that_need_it(repo: Repo) -> None:
    kept = objects(repo.folder)["chunks"]
    needed = {chunk: find_why(repo.uri, chunk) for chunk in kept}
    assert all(answer.is_kept and answer.keys == (f"chunks/{chunk}",) for chunk, answer in needed.items())
    assert {"branch:main", "branch:side"} <= {ref for answer in needed.values() for ref in answer.refs}


def ask(*words: str) -> Result:
    return CliRunner().invoke(cli.dredge, ["icechunk", *words], catch_exceptions=False)


def test_a_deleted_object_names_the_run_that_deleted_it(repo: Repo) -> None:
    gone = next(iter(sorted(key for key in only(repo, "side") if key.startswith("chunks/"))))
    answer = find_why(repo.uri, gone)
    assert (answer.keys, answer.is_kept, len(answer.deleted_by)) == ((), False, 1)
    shown = ask("why", repo.uri, gone, "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["kept"]) == (1, False)
    assert ask("cost", repo.uri).exit_code == 0


def test_an_object_that_nothing_needs_waits(repo: Repo) -> None:
    (repo.folder / "chunks" / "0000000000000000000G").write_bytes(b"left over")
    repo.collect(unsafe_grace_seconds=None)
    answer = find_why(repo.uri, "0000000000000000000G")
    assert not answer.is_kept
    assert [row["status"] for row in answer.waiting] == ["waiting"]


def test_a_restored_object_is_pinned(repo: Repo) -> None:
    (repo.folder / "chunks" / "0000000000000000000G").write_bytes(b"left over")
    repo.collect(undo="quarantine")
    restored = ask(
        "restore", repo.uri, find_why(repo.uri, "0000000000000000000G").deleted_by[0]["run_id"], "--all"
    )
    assert restored.exit_code == 0, restored.output
    answer = find_why(repo.uri, "0000000000000000000G")
    assert answer.is_kept
    assert answer.pinned_until is not None


def test_what_is_no_id_is_bad_input(repo: Repo) -> None:
    with pytest.raises(ConfigError):
        find_why(repo.uri, "refs/branch.main/ref.json")


def test_a_file_that_is_a_container_of_virtual_chunks_is_kept(repo: Repo) -> None:
    (repo.folder / "chunks" / "0000000000000000000G").write_bytes(b"left over")
    icechunk = quiet()
    config = repo.library.config
    place = f"file://{repo.folder}/chunks/0000000000000000000G/"
    store = icechunk.local_filesystem_store(str(repo.folder))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(place, store))
    icechunk.Repository.open(local_storage(repo.folder), config=config).save_config()
    repo.collect()
    assert "0000000000000000000G" in objects(repo.folder)["chunks"]
    assert find_why(repo.uri, "0000000000000000000G").is_kept


def test_an_answer_without_a_reason_names_what_was_not_read(repo: Repo) -> None:
    (repo.folder / "chunks" / "0000000000000000000G").write_bytes(b"left over")
    assert "referring repositories" in ask("why", repo.uri, "0000000000000000000G").output
