"""Missing or damaged refs, and a missing or old repo info, stop a run."""

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dredge import cli
from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.icechunk import repository
from dredge.icechunk.collection.bulk_delete import look_again
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.format.metadata import REPO_KEY
from dredge.icechunk.repository import read_history, read_refs
from dredge.storage import ObjectReader, open_reader, open_writer
from tests.support.icechunk import build, graph_of, local_storage, objects, quiet, scenarios
from tests.support.icechunk_expiring import expire, expire_in_place

NOW = datetime.now(UTC)
SAMPLE = scenarios()[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "repo"
    build(local_storage(folder), graph_of(SAMPLE), 1)
    return folder


@pytest.fixture
def repo(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "repo")
    return tmp_path / "repo"


def config(folder: Path) -> CollectConfig:
    return CollectConfig(
        uri=f"file://{folder}",
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
    )


def command(*words: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        result = CliRunner().invoke(cli.dredge, ["icechunk", words[0], str(folder), *words[1:]])
        assert isinstance(result.exception, DredgeError), result.output
        assert result.exception.exit_code in (3, 5)
        raise result.exception

    return run


ENTRIES: dict[str, Callable[[Path], Any]] = {
    "plan": lambda folder: plan_expiration(read_history(open_reader(f"file://{folder}")), NOW),
    "expire": lambda folder: expire(f"file://{folder}", NOW),
    "expire in place": lambda folder: expire_in_place(open_writer(f"file://{folder}"), NOW),
    "collect": lambda folder: collect(config(folder)),
    "look again": lambda folder: look_again(open_reader(f"file://{folder}"), 1, set(), set()),
    "command plan": command("plan", "--older-than", "0s"),
    "command expire": command("expire", "--older-than", "0s", "--apply"),
    "command collect": command(
        "collect", "--apply", "--unsafe-min-age-seconds", "0", "--unsafe-grace-seconds", "0"
    ),
}
DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "not JSON": lambda path: path.write_bytes(path.read_bytes()[:-2]),
    "no id": lambda path: path.write_text('{"snapshot": "main"}'),
    "another name": lambda path: path.rename(path.with_name("ref.jsom")),
    "another kind": lambda path: path.parent.rename(path.parent.with_name("branck.main")),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_begins_without_a_readable_main(entry: str, damage: str, repo: Path) -> None:
    DAMAGES[damage](repo / "refs" / "branch.main" / "ref.json")
    before = objects(repo)
    bytes_before = {path: path.read_bytes() for path in (repo / "snapshots").iterdir()}
    with pytest.raises((RefusedError, FormatError), match=r"branch\.main|branck\.main"):
        ENTRIES[entry](repo)
    assert objects(repo) == before
    assert {path: path.read_bytes() for path in (repo / "snapshots").iterdir()} == bytes_before


def test_missing_main_is_refused_with_what_to_do(repo: Path) -> None:
    library = quiet().Repository.open(local_storage(repo))
    library.create_tag("main", library.lookup_branch("main"))  # no branch
    (repo / "refs" / "branch.main" / "ref.json").unlink()
    with pytest.raises(RefusedError, match=r"branch\.main"):
        read_refs(open_reader(f"file://{repo}"))


def test_main_that_goes_during_the_sweep_stops_it(repo: Path) -> None:
    reader = open_reader(f"file://{repo}")
    known = set(read_history(reader).snapshots)
    look_again(reader, 1, known, set())
    (repo / "refs" / "branch.main" / "ref.json").unlink()
    with pytest.raises(RefusedError, match="is missing"):
        look_again(reader, 1, known, set())


def test_history_of_an_upgrade_that_is_under_way_is_not_read_from_refs(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = repository.spec_version

    def then_upgraded(reader: ObjectReader) -> int:
        found = version(reader)
        library = quiet().Repository.open(local_storage(repo))
        quiet().upgrade_icechunk_repository(library, dry_run=False, delete_unused_v1_files=False)
        (repo / "refs" / "branch.qa" / "ref.json").unlink()
        return found

    monkeypatch.setattr(repository, "spec_version", then_upgraded)
    with pytest.raises(RefusedError, match="spec 2"):
        read_history(open_reader(f"file://{repo}"))


def test_ref_on_a_snapshot_that_is_not_there_stops_everything(repo: Path) -> None:
    ref = repo / "refs" / "branch.qa" / "ref.json"
    ref.write_text(json.dumps({"snapshot": "0" * 20}))
    before = objects(repo)
    for entry in ("plan", "expire", "collect"):
        with pytest.raises(FormatError, match=r"snapshots/0{20}"):
            ENTRIES[entry](repo)
    assert objects(repo) == before


def test_folder_of_a_deleted_branch_and_a_deleted_tag_are_no_refs(repo: Path) -> None:
    library = quiet().Repository.open(local_storage(repo))
    library.create_branch("gone", library.lookup_branch("main"))
    before = set(read_refs(open_reader(f"file://{repo}")))
    library.delete_branch("gone")
    library.delete_tag("tag1")
    left = read_refs(open_reader(f"file://{repo}"))
    assert before - set(left) == {("branch", "gone"), ("tag", "tag1")}


@pytest.mark.parametrize("entry", ["plan", "collect", "look again"])
def test_a_ref_whose_name_cannot_be_read_is_not_passed_over(repo: Path, entry: str) -> None:
    (repo / "refs" / "branch.qa").rename(repo / "refs" / os.fsdecode(b"branch.\xff"))
    before = objects(repo)
    with pytest.raises(FormatError):
        ENTRIES[entry](repo)
    assert objects(repo) == before


@pytest.mark.parametrize(
    ("remains", "why"),
    [
        ("an earlier repo info", "overwritten/ has earlier versions of it"),
        ("a snapshot of spec 2", "has spec 2"),
    ],
)
def test_migrated_repository_without_its_repo_info_is_not_taken_for_spec_1(
    repo: Path, remains: str, why: str
) -> None:
    # A migration may leave the refs of spec 1, which know nothing of what was committed since.
    refs = {path: path.read_bytes() for path in (repo / "refs").rglob("*") if path.is_file()}
    quiet().upgrade_icechunk_repository(
        quiet().Repository.open(local_storage(repo)), dry_run=False, delete_unused_v1_files=False
    )
    library = quiet().Repository.open(local_storage(repo))
    library.writable_session("main").commit("after the migration", allow_empty=True)
    for path, data in refs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert read_history(open_reader(f"file://{repo}")).spec_version == 2
    (repo / "repo").unlink()
    if remains == "a snapshot of spec 2":
        shutil.rmtree(repo / "overwritten")
    before = objects(repo)
    for entry in ("plan", "collect"):
        with pytest.raises(RefusedError, match=why):
            ENTRIES[entry](repo)
    assert objects(repo) == before


def test_repo_info_without_main_is_refused(tmp_path: Path) -> None:
    build(local_storage(tmp_path), graph_of(SAMPLE), 2)
    from dredge.icechunk.format.envelope import FileType, close_file, open_file

    opened = open_file((tmp_path / "repo").read_bytes(), "repo", FileType.REPO_INFO)
    name = (4).to_bytes(4, "little") + b"main\0"
    body = opened.body
    at = body.find(name)
    while at >= 0:  # the branch's own name, and those in the operations log
        body = body[: at + 4] + b"nain" + body[at + 8 :]
        at = body.find(name)
    (tmp_path / "repo").write_bytes(close_file(opened.header, body))
    before = objects(tmp_path)
    for entry in ("plan", "expire", "collect"):
        with pytest.raises(RefusedError, match="branch main"):
            ENTRIES[entry](tmp_path)
    assert objects(tmp_path) == before


def test_folder_without_refs_is_no_repository(repo: Path) -> None:
    shutil.rmtree(repo / "refs")
    with pytest.raises(NotFoundError, match="refs/"):
        collect(config(repo))


def earlier(folder: Path, versions: int) -> bytes:
    names = sorted(path.name for path in (folder / "overwritten").iterdir())
    return (folder / "overwritten" / names[versions - 1]).read_bytes()


@pytest.mark.parametrize("versions", [2, 7])
@pytest.mark.parametrize("then", ["nothing", "commits"])
def test_repo_info_that_was_put_back_to_an_earlier_version_is_refused(
    versions: int, then: str, tmp_path: Path
) -> None:
    build(local_storage(tmp_path), graph_of(SAMPLE), 2)
    library = quiet().Repository.open(local_storage(tmp_path))
    for number in range(9):
        library.writable_session("main").commit(str(number), allow_empty=True)
        time.sleep(0.002)  # copies are named by milliseconds, and nobody knows the order within one
    (tmp_path / "repo").write_bytes(earlier(tmp_path, versions))
    if then == "commits":
        library = quiet().Repository.open(local_storage(tmp_path))
        for number in range(4):
            library.writable_session("main").commit(f"after {number}", allow_empty=True)
    before = objects(tmp_path)
    for entry in ("plan", "expire", "collect"):
        with pytest.raises(RefusedError):
            ENTRIES[entry](tmp_path)
    assert objects(tmp_path) == before


def test_copy_of_a_change_that_never_came_about_does_not_alarm(tmp_path: Path) -> None:
    build(local_storage(tmp_path), graph_of(SAMPLE), 2)
    # A writer copies the repo info, and is killed before it replaces it; others go on.
    digits = 32_503_680_000_000 - int(datetime.now(UTC).timestamp() * 1000)
    (tmp_path / "overwritten" / f"repo.{digits:014d}.{'0' * 20}").write_bytes(
        (tmp_path / "repo").read_bytes()
    )
    read_history(open_reader(f"file://{tmp_path}"))
    library = quiet().Repository.open(local_storage(tmp_path))
    library.writable_session("main").commit("later", allow_empty=True)
    (tmp_path / "overwritten" / f"repo.{'9' * 14}.{'0' * 20}").write_bytes(b"")
    read_history(open_reader(f"file://{tmp_path}"))


def test_commits_after_the_repo_info_was_read_do_not_alarm(tmp_path: Path) -> None:
    build(local_storage(tmp_path), graph_of(SAMPLE), 2)
    library = quiet().Repository.open(local_storage(tmp_path))
    inner = open_reader(f"file://{tmp_path}")

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def get(self, key: str) -> bytes:
            found = inner.get(key)
            if key == REPO_KEY:
                for number in range(2):
                    library.writable_session("main").commit(str(number), allow_empty=True)
            return found

    history = read_history(Busy())
    assert len(read_history(inner).snapshots) == len(history.snapshots) + 2
