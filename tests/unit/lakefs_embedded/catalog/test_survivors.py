"""Which objects a collection would leave, by the server's own answers: facts of an upstream system test."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from lakefs_embedded.catalog import Rules
from tests.support.lakes import Lake, make_lake


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
