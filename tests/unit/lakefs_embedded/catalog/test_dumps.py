"""Refs as files: equal to a real server's byte for byte, and a repository made of them again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Branch
from dredge.storage import open_writer
from lakefs_embedded.catalog import RefsDump, Settings
from lakefs_embedded.catalog.dumps import (
    DumpFiles,
    InvalidDumpError,
    branch_record,
    commit_record,
    tag_record,
)
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.errors import MissingError
from lakefs_embedded.refs.records import Commit, Tag
from tests.support.lakes import Lake, make_lake

FOLDER = Path(__file__).parents[3] / "fixtures" / "lakefs" / "tables" / "refs_dump"
KINDS = {
    "commit": ("commits", lambda raw: commit_record(Commit.decode(raw).id, raw)),
    "branch": ("branches", lambda raw: branch_record(Branch.decode(raw))),
    "tag": ("tags", lambda raw: tag_record(Tag.decode(raw))),
}


def captured(name: str) -> Iterator[bytes]:
    for line in (FOLDER / f"{name}_range.jsonl").read_text().splitlines():
        yield base64.b64decode(json.loads(line)["data_b64"])


@pytest.mark.parametrize("entity", KINDS)
def test_files_equal_a_real_servers(entity: str) -> None:
    name, record = KINDS[entity]
    objects = open_writer(f"memory://dumps-{name}/ns")
    made = DumpFiles(objects, SplitRule()).write(entity, map(record, captured(name)))
    for kind in ("range", "metarange"):
        table_id = json.loads((FOLDER / f"{name}_{kind}.json").read_text())["id"]
        assert objects.get(f"_lakefs/{table_id}") == (FOLDER / f"{name}_{kind}.sst").read_bytes()
    assert made == table_id
    assert [raw for _, raw in DumpFiles(objects, SplitRule()).read(entity, made)] == list(captured(name))


def test_dumps_of_a_real_server_are_read() -> None:
    objects = open_writer("memory://dumps-read/ns")
    for path in FOLDER.glob("*.sst"):
        objects.put("_lakefs/" + json.loads(path.with_suffix(".json").read_text())["id"], path.read_bytes())
    lake = make_lake(namespace="memory://dumps-read/ns", create=False)
    lake.catalog.repositories.create_repository("lake", lake.namespace, bare=True)
    ids = json.loads((FOLDER / "answer.json").read_text())
    dump = RefsDump(ids["commits_meta_range_id"], ids["tags_meta_range_id"], ids["branches_meta_range_id"])
    lake.catalog.dumps.restore_refs("lake", dump)
    branches = lake.catalog.branches.list_branches("lake").results
    assert [branch.name for branch in branches] == ["b1", "hidden", "main"]
    assert [tag.name for tag in lake.catalog.tags.list_tags("lake").results] == ["t1"]
    assert len(lake.catalog.commits.log("lake", "main").results) == 2
    assert lake.catalog.dumps.dump_refs("lake") == dump


# --- a repository and its copy -----------------------------------------------------------------------------


def busy_lake(settings: Settings | None = None) -> Lake:
    lake = make_lake(settings=settings)
    for number in range(3):
        lake.upload(f"path/{number}", b"%d" % number)
        lake.commit(f"commit {number}", metadata={"number": str(number), "a": "b"})
    lake.catalog.branches.create_branch(lake.repository, "side", "main~1")
    lake.catalog.branches.create_branch(lake.repository, "hidden", "main", hidden=True)
    lake.upload("side", branch="side")
    lake.commit("on side", branch="side")
    lake.catalog.merges.merge(lake.repository, "side", "main", committer="tester", message="merged")
    lake.catalog.tags.create_tag(lake.repository, "v1", "main~1")
    lake.upload("staged")
    return lake


def bare(lake: Lake, name: str = "copy", **more: bool) -> Lake:
    lake.catalog.repositories.create_repository(name, lake.namespace, bare=True, **more)
    return Lake(lake.catalog, lake.kv, lake.clock, lake.namespace, name, lake.settings)


def refs(lake: Lake) -> dict[str, object]:
    found = lake.catalog.repositories.get_repository(lake.repository)
    return {
        "commits": list(lake.catalog.refs.commits.all(found)),
        "branches": [(each.name, each.commit_id) for each in lake.catalog.refs.branches.scan(found)],
        "tags": list(lake.catalog.refs.tags.scan(found)),
    }


def test_a_restored_repository_has_the_same_commits_branches_and_tags() -> None:
    lake = busy_lake()
    copy = bare(lake)
    lake.catalog.dumps.restore_refs("copy", lake.catalog.dumps.dump_refs(lake.repository))
    assert refs(copy) == refs(lake)
    assert copy.paths() == [*(f"path/{number}" for number in range(3)), "side"]
    assert copy.read("path/1") == b"1"
    copy.upload("new", b"new")
    assert copy.commit().parents == (lake.catalog.branches.get_branch(lake.repository, "main").commit_id,)
    assert lake.paths() == [*(f"path/{number}" for number in range(3)), "side", "staged"]


# --- what a restore refuses --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["commits", "tags", "branches"])
def test_a_dump_with_a_missing_or_damaged_file_restores_nothing(kind: str) -> None:
    lake = busy_lake()
    dump = lake.catalog.dumps.dump_refs(lake.repository)
    copy = bare(lake)
    key = f"_lakefs/{getattr(dump, kind)}"
    data = lake.objects.get(key)
    lake.objects.put(key, data[:-60] + b"x" + data[-59:])
    with pytest.raises(InvalidDumpError):
        lake.catalog.dumps.restore_refs("copy", dump)
    gone = RefsDump(**{"commits": dump.commits, "tags": dump.tags, "branches": dump.branches, kind: "0" * 64})
    with pytest.raises(MissingError, match="missing"):
        lake.catalog.dumps.restore_refs("copy", gone)
    assert refs(copy) == {"commits": [], "branches": [], "tags": []}


def test_trap_41_a_branch_without_its_commit_is_never_restored() -> None:
    lake = busy_lake()
    dump = lake.catalog.dumps.dump_refs(lake.repository)
    bare(lake)
    files = DumpFiles(lake.objects, SplitRule())
    lost = files.write("branch", [branch_record(Branch("main", "0" * 64, ""))])
    with pytest.raises(InvalidDumpError, match="unknown commit"):
        lake.catalog.dumps.restore_refs("copy", RefsDump(dump.commits, dump.tags, lost))
    forged = [
        (key, Value(key, raw.replace(b"Repository", b"Repositorz")))
        for key, raw in files.read("commit", dump.commits)
    ]
    wrong = files.write("commit", forged)
    with pytest.raises(InvalidDumpError, match="hash"):
        lake.catalog.dumps.restore_refs("copy", RefsDump(wrong, dump.tags, dump.branches))
