"""Messages read what a real server wrote, and write it back byte for byte."""

import base64
import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.message import Message

from dredge.lakefs.files import messages
from dredge.lakefs.files.messages import generate as generator

LAKEFS = Path(__file__).parents[3] / "fixtures/lakefs"

KINDS: dict[str, type[Message]] = {
    "repos": messages.RepositoryData,
    "branches": messages.BranchData,
    "commits": messages.CommitData,
    "tags": messages.TagData,
}


def kv_rows() -> list[dict[str, str]]:
    return [json.loads(line) for line in (LAKEFS / "repo-small/kv.jsonl").read_text().splitlines()]


def test_records_of_a_real_server_survive_whole() -> None:
    seen: dict[str, int] = {}
    for row in kv_rows():
        folder = row["key"].split("/")[0]
        kind = messages.StagedEntryData if ":" in row["partition"] else KINDS.get(folder)
        if kind is None:
            continue
        data = base64.b64decode(row["value_b64"])
        message = messages.decode(kind, data, row["key"])
        again = messages.encode(message)
        assert len(again) == len(data), row["key"]  # so no field is unknown
        if len(getattr(message, "metadata", ())) < 2:  # a server writes maps in any order
            assert again == data, row["key"]
        seen[kind.__name__] = seen.get(kind.__name__, 0) + 1
    assert seen["CommitData"] == 20
    assert seen["BranchData"] == 47
    assert seen["TagData"] == 1
    assert seen["StagedEntryData"] > 10


def test_commit_records_say_what_the_api_says() -> None:
    answers = {c["id"]: c for c in json.loads((LAKEFS / "ids.json").read_text())["commits"]}
    for row in kv_rows():
        if not row["key"].startswith("commits/"):
            continue
        commit = messages.decode(messages.CommitData, base64.b64decode(row["value_b64"]), row["key"])
        assert commit.id == row["key"].removeprefix("commits/")
        if answer := answers.get(commit.id):
            assert list(commit.parents) == answer["parents"]
            assert commit.creation_date.seconds == answer["creation_date"]


@pytest.mark.parametrize("path", sorted((LAKEFS / "repo-small/rules").glob("*.bin")), ids=lambda p: p.name)
def test_rules_of_a_real_server_decode(path: Path) -> None:
    rules = messages.decode(messages.GarbageCollectionRules, path.read_bytes(), path.name)
    assert rules.default_retention_days == 21
    assert dict(rules.branch_retention_days) == {"main": 28, "dev": 7}


def test_maps_are_written_in_key_order() -> None:
    one = messages.Entry(metadata={"b": "1", "a": "2"})
    other = messages.Entry(metadata={"a": "2", "b": "1"})
    assert messages.encode(one) == messages.encode(other)


def test_times_survive_before_1970_too() -> None:
    for when in (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2026, 7, 1, 1, 2, 3, 4, UTC)):
        assert messages.from_timestamp(messages.to_timestamp(when)) == when


def test_generated_code_is_current(tmp_path: Path) -> None:
    for path in generator.generate(tmp_path):
        if path.suffix == ".py":  # stubs differ by the compiler's version
            committed = generator.FOLDER / path.name
            assert without_version(path) == without_version(committed), generator.__doc__


def without_version(path: Path) -> str:
    text = re.sub(r"# Protobuf Python Version: [\d.]+", "", path.read_text())
    return re.sub(r"Domain\.PUBLIC,\s+\d+,\s+\d+,\s+\d+,", "", text)


def test_the_oldest_protobuf_that_is_allowed_runs_the_generated_code() -> None:
    code = (generator.FOLDER / "graveler_pb2.py").read_text()
    found = re.search(r"# Protobuf Python Version: (\d+)\.(\d+)", code)
    assert found is not None
    project = tomllib.loads((Path(generator.ROOT) / "pyproject.toml").read_text())["project"]
    (wanted,) = (item for item in project["dependencies"] if item.startswith("protobuf"))
    assert wanted == f"protobuf>={found[1]}.{found[2]},<{int(found[1]) + 2}"
