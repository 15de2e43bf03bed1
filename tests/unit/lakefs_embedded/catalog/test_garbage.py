"""What garbage collection asks of a server."""

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.lakefs.files.addresses import AddressType
from lakefs_embedded.catalog import PreparedUncommitted, Rules
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import CommitNotFoundError, TaskNotFoundError
from lakefs_embedded.staging.area import Staged
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake, with_settings


def pages(lake: Lake, limit: int = 50) -> list[PreparedUncommitted]:
    found = [lake.catalog.garbage.prepare_uncommitted(lake.repository)]
    while (token := found[-1].continuation_token) is not None and len(found) < limit:
        found.append(lake.catalog.garbage.prepare_uncommitted(lake.repository, token))
    return found


def files(lake: Lake, run_id: str) -> list[list[dict[str, Any]]]:
    folder = f"_lakefs/retention/gc/uncommitted/{run_id}/uncommitted/"
    return [pq.read_table(pa.BufferReader(lake.objects.get(key))).to_pylist() for key in lake.keys(folder)]


def prepared(lake: Lake) -> set[str]:
    """Addresses of all files of one run, read to its end."""
    run = pages(lake)
    return {row["physical_address"] for rows in files(lake, run[0].run_id) for row in rows}


def stage_value(lake: Lake, path: str, address: str, address_type: AddressType) -> None:
    value = Entry(address=address, address_type=address_type, size=1, etag=address).value()
    lake.catalog.staging.areas.put(lake.tokens()[0], Staged(path.encode(), value))


# --- uncommitted -------------------------------------------------------------------------------------------


def test_the_file_is_as_a_server_writes_it() -> None:
    lake = make_lake()
    stats = lake.upload("a")
    answer = lake.catalog.garbage.prepare_uncommitted(lake.repository)
    folder = f"_lakefs/retention/gc/uncommitted/{answer.run_id}/uncommitted/"
    assert answer.location == f"{lake.namespace}/{folder}"
    (key,) = lake.keys(folder)
    data = pa.BufferReader(lake.objects.get(key))
    metadata = pq.read_metadata(data)
    column = metadata.row_group(0).column(0)
    assert (column.compression, column.has_dictionary_page) == ("GZIP", True)
    assert re.sub(r"\s+", " ", str(metadata.schema)).count("required") >= 2
    (row,) = pq.read_table(data).to_pylist()
    assert row == {"physical_address": lake.address(stats), "creation_date": int(lake.clock.now.timestamp())}


def test_every_branch_counts_and_only_what_is_live_there() -> None:
    lake = make_lake()
    committed = lake.upload("committed", b"old")
    lake.upload("deleted")
    lake.commit()
    lake.catalog.branches.create_branch(lake.repository, "hidden", "main", hidden=True)
    lake.catalog.branches.create_branch(lake.repository, "gone", "main")
    live = {
        lake.address(lake.upload("committed", b"new")),
        lake.address(lake.upload("hidden", branch="hidden")),
    }
    garbage = {lake.address(lake.upload("twice", b"1")), lake.address(lake.upload("deleted", b"2"))}
    lake.catalog.objects.delete_object(lake.repository, "main", "deleted")
    repository = lake.catalog.repositories.get_repository(lake.repository)
    lake.catalog.staging.protocol.seal(repository, "main")
    live.add(lake.address(lake.upload("sealed")))
    lake.catalog.staging.protocol.seal(repository, "main")
    live.add(lake.address(lake.upload("twice", b"3")))
    garbage.add(lake.address(lake.upload("x", branch="gone")))
    lake.catalog.branches.delete_branch(lake.repository, "gone")
    found = prepared(lake)
    assert found == live
    assert not found & garbage
    assert lake.address(committed) not in found


def test_trap_6_identical_content_uploaded_again_is_in_no_page() -> None:
    lake = make_lake()
    lake.upload("twin", b"same")
    lake.commit()
    newer = lake.upload("twin", b"same")
    assert prepared(lake) == set()
    assert (
        lake.catalog.reading.stat(lake.repository, "main", "twin").physical_address == newer.physical_address
    )


def test_a_metadata_update_lists_the_committed_address_again() -> None:
    lake = make_lake()
    stats = lake.upload("a")
    lake.commit()
    lake.catalog.objects.update_user_metadata(lake.repository, "main", "a", {"k": "v"})
    assert prepared(lake) == {lake.address(stats)}


def test_addresses_are_listed_relative_or_not_at_all() -> None:
    lake = make_lake()
    inside, outside = f"{lake.namespace}/some/object", f"{lake.namespace}2/some/object"
    stage_value(lake, "1", "data/relative", AddressType.RELATIVE)
    stage_value(lake, "2", inside, AddressType.FULL)
    stage_value(lake, "3", outside, AddressType.FULL)
    stage_value(lake, "4", "0123456789abcdef", AddressType.BY_PREFIX_DEPRECATED)  # L14
    stage_value(lake, "5", f"{lake.namespace}/old/object", AddressType.BY_PREFIX_DEPRECATED)
    stage_value(lake, "6", "data/odd, name%20/é", AddressType.RELATIVE)
    assert prepared(lake) == {"data/relative", "some/object", "old/object", "data/odd, name%20/é"}


def many(lake: Lake, branches: int = 3, objects: int = 4) -> set[str]:
    live = set()
    for number in range(branches):
        name = f"b{number}"
        lake.catalog.branches.create_branch(lake.repository, name, "main")
        for item in range(objects):
            live.add(lake.address(lake.upload(f"{item}", f"{name}{item}".encode(), branch=name)))
    return live


def test_a_branch_without_its_head_commit_stops_the_run() -> None:
    lake = make_lake()
    repository = lake.catalog.repositories.get_repository(lake.repository)
    head = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    lake.upload("a")
    lake.kv.delete(repository.partition, f"commits/{head}".encode())
    with pytest.raises(CommitNotFoundError):
        lake.another_server().garbage.prepare_uncommitted(lake.repository)


def delete_branch_during_scan(lake: Lake, name: str) -> Lake:
    """The branch is listed, and gone when its turn comes."""
    done = False

    def delete(operation: Operation) -> None:
        nonlocal done
        if not done and b":" in operation.partition and operation.name == "scan":
            done = True
            lake.another_server().branches.delete_branch(lake.repository, name)

    catalog = lake.another_server(WatchedStore(lake.kv, delete))
    return Lake(catalog, lake.kv, lake.clock, lake.namespace, lake.repository, lake.settings)


@pytest.mark.parametrize("rest", [0, 1])
def test_a_branch_deleted_during_the_scan_costs_only_its_own_rows(rest: int) -> None:
    lake = make_lake()
    kept = lake.address(lake.upload("a"))
    lake.catalog.branches.create_branch(lake.repository, "middle", "main")
    lake.catalog.branches.create_branch(lake.repository, "zz", "main")
    live = {kept} | {lake.address(lake.upload("z", branch="zz")) for _ in range(rest)}
    assert prepared(delete_branch_during_scan(lake, "middle")) == live


def test_trap_4_defect_a_branch_deleted_during_the_scan_throws_the_page_away() -> None:
    lake = with_settings(make_lake(), defects=frozenset({"rows_lost_on_branch_delete"}))
    lake.upload("a")
    lake.catalog.branches.create_branch(lake.repository, "middle", "main")
    lake.catalog.branches.create_branch(lake.repository, "zz", "main")
    run = pages(delete_branch_during_scan(lake, "middle"))
    assert [(page.location, page.continuation_token) for page in run] == [("", None)]
    assert len(prepared(lake)) == 1  # asked again it answers


def test_trap_3_defect_the_last_page_is_empty() -> None:
    lake = with_settings(make_lake(), defects=frozenset({"empty_last_page"}))
    live = many(lake)
    run = pages(lake)
    assert [bool(page.location) for page in run] == [True, False]
    assert prepared(lake) == live


def test_trap_43_defect_a_token_is_repeated_for_ever() -> None:
    settings = {"defects": frozenset({"repeated_token"}), "prepare_interval": timedelta()}
    lake = with_settings(make_lake(), **settings)
    many(lake)
    run = pages(lake, limit=6)
    assert len({page.continuation_token for page in run}) == 1
    assert len(run) == 6
    assert sorted(len(rows) for rows in files(lake, run[0].run_id)) == [0, 0, 0, 0, 0, 1]


# --- rules and commits -------------------------------------------------------------------------------------


def active(lake: Lake, location: str) -> dict[str, str]:
    data = lake.objects.get(location.removeprefix(lake.namespace + "/")).decode()
    rows = list(csv.DictReader(io.StringIO(data)))
    assert {row["expired"] for row in rows} <= {"false"}
    return {row["commit_id"]: row["metarange_id"] for row in rows}


def test_trap_8_the_first_commit_has_no_metarange() -> None:
    lake = make_lake()
    lake.catalog.garbage.set_gc_rules(lake.repository, Rules(10))
    answer = lake.catalog.garbage.prepare_commits(lake.repository)
    head = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    assert active(lake, answer.commits_location) == {head: ""}


def test_hidden_branches_are_starting_points_and_tags_are_not() -> None:
    lake = make_lake()
    lake.catalog.garbage.set_gc_rules(lake.repository, Rules(10))
    old = lake.clock.now - timedelta(days=90)
    commits = {}
    for name in ("hidden", "tagged"):
        lake.catalog.branches.create_branch(lake.repository, name, "main", hidden=name == "hidden")
        lake.upload(name, branch=name)
        commits[name] = lake.commit(branch=name, date=old).id
    lake.catalog.tags.create_tag(lake.repository, "v1", "tagged")
    lake.catalog.branches.delete_branch(lake.repository, "tagged")
    found = active(lake, lake.catalog.garbage.prepare_commits(lake.repository).commits_location)
    assert commits["hidden"] in found
    assert commits["tagged"] not in found  # L18


def test_trap_41_a_branch_without_its_head_commit_is_404_and_no_crash() -> None:
    lake = make_lake()
    lake.catalog.garbage.set_gc_rules(lake.repository, Rules(10))
    repository = lake.catalog.repositories.get_repository(lake.repository)
    head = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    lake.kv.delete(repository.partition, f"commits/{head}".encode())
    with pytest.raises(CommitNotFoundError):
        lake.catalog.garbage.prepare_commits(lake.repository)


def test_trap_31_an_old_task_is_gone_which_is_no_success() -> None:
    lake = make_lake()
    task = lake.catalog.garbage.prepare_commits_async(lake.repository)
    lake.clock.advance(hours=24)
    assert lake.catalog.garbage.prepare_commits_status(lake.repository, task).completed
    lake.clock.advance(seconds=1)
    with pytest.raises(TaskNotFoundError):
        lake.catalog.garbage.prepare_commits_status(lake.repository, task)
    partition = lake.catalog.repositories.get_repository(lake.repository).partition.decode()
    lake.catalog.garbage.prepare_commits_async(lake.repository)
    assert f"tasks/{task}".encode() not in lake.rows(partition)


# Which objects a collection would leave, by the server's own answers: facts of an upstream system test.


def live(lake: Lake) -> set[str]:
    """Addresses that prepare_uncommitted lists, and those of the ranges of prepare_commits."""
    addresses = set()
    run = lake.catalog.garbage.prepare_uncommitted(lake.repository)
    for key in lake.keys(f"_lakefs/retention/gc/uncommitted/{run.run_id}/"):
        addresses |= set(
            pq.read_table(pa.BufferReader(lake.objects.get(key)))["physical_address"].to_pylist()
        )
    location = lake.catalog.garbage.prepare_commits(lake.repository).commits_location
    data = lake.objects.get(location.removeprefix(lake.namespace + "/")).decode()
    for row in csv.DictReader(io.StringIO(data)):
        addresses |= {lake.address(stats) for stats in lake.listing(row["commit_id"])}
    return addresses


def test_the_survivors_are_those_of_the_upstream_test() -> None:
    lake = make_lake()
    now = lake.clock.now
    names: dict[str, str] = {}

    def upload(number: int, branch: str) -> None:
        names[lake.address(lake.upload(f"file_{number}", f"{number}".encode(), branch))] = f"file_{number}"

    def delete_committed(number: int, branch: str, days: int) -> None:
        lake.catalog.objects.delete_object(lake.repository, branch, f"file_{number}")
        lake.commit(f"delete {number}", branch, date=now - timedelta(days=days))

    lake.catalog.garbage.set_gc_rules(lake.repository, Rules(7, {"main": 10, "dev": 7}))
    lake.catalog.branches.create_branch(lake.repository, "dev", "main")
    lake.catalog.branches.create_branch(lake.repository, "dev2", "main")
    for branch, numbers in {"main": (1, 2), "dev": (5, 6), "dev2": (8, 9)}.items():
        for number in numbers:
            upload(number, branch)
        lake.commit("create", branch, date=now - timedelta(days=14))
    for number, branch, days in (
        (2, "main", 12),
        (1, "main", 8),
        (5, "dev", 8),
        (6, "dev", 4),
        (9, "dev2", 8),
        (8, "dev2", 6),
    ):
        delete_committed(number, branch, days)
    for number, branch in ((3, "main"), (4, "main"), (7, "dev"), (10, "dev2")):
        upload(number, branch)
    lake.catalog.objects.delete_object(lake.repository, "main", "file_4")
    lake.catalog.branches.reset_branch(lake.repository, "dev")
    lake.catalog.branches.delete_branch(lake.repository, "dev2")
    assert set(lake.keys()) == set(names)
    assert {names[address] for address in live(lake)} == {"file_1", "file_3", "file_6", "file_8"}
