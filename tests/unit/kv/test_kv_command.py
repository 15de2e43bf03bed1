"""`dredge kv` at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dredge.commands.kv import command, decoded, kind_of
from dredge.errors import ConfigError, NotFoundError
from lakefs_embedded.kv import open_store
from tests.support.kv_world import TRUTH, dump

REPOSITORY = "orchard-dc0oetpksduagc7our40"


URL = ""


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite://{tmp_path}/kv.db"
    with open_store(url) as store:
        for row in dump("b1_before_delete"):
            store.set(*row)
        store.set(b"odd\xff", b"k\x00\xfe", b"\xff")
    monkeypatch.setitem(globals(), "URL", url)


def run(*words: str) -> Result:
    result = CliRunner().invoke(command, [words[0], URL, *words[1:]])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def values(*words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*words, "--json").stdout.splitlines()]


def test_rows_are_decoded_by_their_message() -> None:
    types = {str(line["key"]).split("/")[0]: line["type"] for line in values("scan", REPOSITORY)}
    assert types == {
        "branches": "BranchData",
        "commits": "CommitData",
        "imports": "ImportStatusData",
        "pulls": "PullRequestData",
        "repo-metadata": "RepoMetadata",
        "settings": "BranchProtectionRules",
        "tags": "TagData",
        "tasks": "GarbageCollectionPrepareStatus",
    }
    (record,) = values("get", "graveler", "repos/orchard")
    assert record["value"]["instance_uid"] == "dc0oetpksduagc7our40"  # type: ignore[index]


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_every_row_of_a_real_server_can_be_decoded(story: str) -> None:
    for row in dump(story):
        kind, value = decoded(*row)
        assert not kind.startswith("damaged") or row.value == b"redacted", row
        json.dumps(value)
        assert kind_of(row.partition) != "unknown"


def test_odd_names_are_shown_and_taken_as_escapes() -> None:
    (line,) = values("get", "odd\\xff", "k\x00\\xfe")
    assert line["type"] == "bytes"
    assert run("get", "odd\\xff", "k\x00\\xfe", "--raw").output.endswith("/w==\n")


def test_credentials_are_hidden_unless_asked_for() -> None:
    for partition in ("auth", "basicAuth"):
        assert {line["type"] for line in values("scan", partition)} == {"secret"}
        assert {line["type"] for line in values("scan", partition, "--raw")} == {"secret"}
        assert "secret" not in {line["type"] for line in values("scan", partition, "--show-secrets")}


def test_a_missing_key_and_a_missing_store_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        run("get", "graveler", "repos/nothing")
    with pytest.raises(ConfigError):
        CliRunner().invoke(command, ["ls", f"sqlite://{tmp_path}/absent.db"], catch_exceptions=False)
