"""Pull requests: records as a real server's, one open for two branches."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dredge.graveler import messages
from dredge.graveler.catalog.pulls import PullExistsError, PullStateError
from dredge.graveler.errors import MergeConflictError
from dredge.kv import Store
from tests.support.lakes import Lake, make_lake
from tests.support.turns import Scene, explore

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kv"


def lake_with_side() -> Lake:
    lake = make_lake()
    lake.upload("a")
    lake.commit()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    lake.upload("b", branch="side")
    lake.commit(branch="side")
    return lake


def open_pull(lake: Lake, title: str = "title", kv: Store | None = None) -> str:
    catalog = lake.catalog if kv is None else lake.another_server(kv)
    return catalog.pulls.create_pull_request(
        lake.repository, title=title, source="side", destination="main", author="jane"
    )


def index(lake: Lake) -> list[tuple[bytes, bytes]]:
    return [(entry.key, entry.value) for entry in lake.kv.scan(b"pulls")]


def test_the_rows_are_a_real_servers() -> None:
    rows = [json.loads(line) for line in (FIXTURES / "b1_before_delete.jsonl").read_text().splitlines()]
    decoded = [tuple(base64.b64decode(row[part]) for part in ("partition", "key", "value")) for row in rows]
    ((_, key, value),) = [row for row in decoded if row[1].startswith(b"pulls/")]
    ((_, index_key, index_value),) = [row for row in decoded if row[0] == b"pulls"]
    real = messages.PullRequestData.FromString(value)

    lake = make_lake()
    lake.clock.now = messages.from_timestamp(real.created_at)
    lake.catalog.branches.create_branch(lake.repository, "feature-x", "main")
    made = lake.catalog.pulls.create_pull_request(
        lake.repository, title=real.title, source="feature-x", destination="main", author=real.author
    )
    assert made[:6] == key.decode().removeprefix("pulls/")[:6]  # the time in the id
    partition = lake.catalog.repositories.get_repository(lake.repository).partition
    real.id = made
    real.created_at.CopyFrom(messages.to_timestamp(lake.clock.now))
    assert lake.kv.get(partition, b"pulls/" + made.encode()) == messages.encode(real)
    ((own_key, own_value),) = index(lake)
    assert own_key.split(b"/")[2:] == index_key.split(b"/")[2:]
    assert own_key.split(b"/")[:2] == [b"repos", partition]
    assert len(own_value) == len(index_value)
    assert own_value.endswith(made.encode())


def test_newer_ones_are_listed_first() -> None:
    lake = lake_with_side()
    made = []
    for number in range(3):
        made.append(open_pull(lake, f"{number}"))
        lake.catalog.pulls.update_pull_request(lake.repository, made[-1], status="closed")
        lake.clock.advance(seconds=1)
    found = lake.catalog.pulls.list_pull_requests(lake.repository, amount=2)
    assert [pull.id for pull in found.results] == made[:0:-1]
    rest = lake.catalog.pulls.list_pull_requests(lake.repository, after=found.next_offset)
    assert [pull.id for pull in rest.results] == made[:1]


def test_only_one_is_open_for_two_branches_and_a_closed_one_makes_room() -> None:
    lake = lake_with_side()
    first = open_pull(lake)
    with pytest.raises(PullExistsError):
        open_pull(lake)
    assert len(lake.catalog.pulls.list_pull_requests(lake.repository).results) == 1
    lake.catalog.pulls.update_pull_request(lake.repository, first, status="closed")
    assert index(lake) == []
    second = open_pull(lake)
    with pytest.raises(PullExistsError):
        lake.catalog.pulls.update_pull_request(lake.repository, first, status="open")
    assert lake.catalog.pulls.get_pull_request(lake.repository, first).status == "closed"
    lake.catalog.pulls.update_pull_request(lake.repository, second, status="closed")
    lake.catalog.pulls.update_pull_request(lake.repository, first, status="open")
    reopened = lake.catalog.pulls.get_pull_request(lake.repository, first)
    assert (reopened.status, reopened.closed) == ("open", None)


def test_an_index_entry_of_nothing_is_replaced() -> None:
    lake = lake_with_side()
    first = open_pull(lake)
    lake.kv.delete(
        lake.catalog.repositories.get_repository(lake.repository).partition, f"pulls/{first}".encode()
    )
    assert open_pull(lake)


def test_a_conflict_leaves_it_open_and_a_merge_ends_it() -> None:
    lake = lake_with_side()
    pull = open_pull(lake)
    lake.upload("b", b"other")
    lake.commit()
    with pytest.raises(MergeConflictError):
        lake.catalog.pulls.merge_pull_request(lake.repository, pull, committer="jane")
    assert lake.catalog.pulls.get_pull_request(lake.repository, pull).status == "open"
    lake.catalog.objects.delete_object(lake.repository, "main", "b")
    lake.commit()
    commit = lake.catalog.pulls.merge_pull_request(lake.repository, pull, committer="jane")
    merged = lake.catalog.pulls.get_pull_request(lake.repository, pull)
    assert (merged.status, merged.commit_id, merged.closed) == ("merged", commit.id, lake.clock.now)
    assert index(lake) == []
    with pytest.raises(PullStateError):
        lake.catalog.pulls.merge_pull_request(lake.repository, pull, committer="jane")
    for status in ("open", "closed"):
        with pytest.raises(PullStateError):
            lake.catalog.pulls.update_pull_request(lake.repository, pull, status=status)  # type: ignore[arg-type]


def test_of_two_opened_at_once_one_stays_whatever_the_order() -> None:
    def scene() -> Scene:
        lake = lake_with_side()

        def check(results: Mapping[str, object]) -> None:
            made = [result for result in results.values() if isinstance(result, str)]
            assert len(made) == 1
            listed = lake.catalog.pulls.list_pull_requests(lake.repository).results
            assert [pull.id for pull in listed] == made
            assert len(index(lake)) == 1

        actors = {name: lambda kv, name=name: open_pull(lake, name, kv) for name in ("one", "other")}
        return Scene(lake.kv, actors, check)

    assert set(explore(scene).outcomes) == {("PullExistsError", "ok"), ("ok", "PullExistsError")}
