"""The commit protocol and step 2's life-cycle between processes on PostgreSQL, some of which are killed.

`./run test long` runs for a minute, DREDGE_SECONDS sets another time.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dredge.kv import open_store
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.errors import MissingError, RepositoryInDeletionError
from tests.support import protocol_processes as processes
from tests.support.depth import depth
from tests.support.postgres import PostgresServer
from tests.support.protocol_processes import REPOSITORY, START_SECONDS_MAX, calls, check, open_catalog

pytestmark = [pytest.mark.system, pytest.mark.hunt]
SECONDS = depth(5, 60, "DREDGE_SECONDS")


def run_processes(
    work: Callable[..., None], url: str, folder: Path, names: str, killed: str, *more: object
) -> None:
    """Run a process for each name; those to be killed end without warning half way."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(names) + 1)
    started = {
        name: context.Process(
            target=work, args=(url, str(folder / f"{name}.journal"), name, start, SECONDS, *more)
        )
        for name in names
    }
    for process in started.values():
        process.start()
    try:
        start.wait(START_SECONDS_MAX)
        start_at = time.monotonic()
        for number, name in enumerate(killed, 1):
            time.sleep(max(0.0, start_at + SECONDS * number / (len(killed) + 1) - time.monotonic()))
            started[name].kill()
        for name, process in started.items():
            process.join(SECONDS + 60)
            assert process.exitcode == (-9 if name in killed else 0), name
    finally:
        for process in started.values():
            process.kill()


def test_processes_that_write_read_and_commit_keep_every_promise(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with open_store(url) as store:
        catalog = open_catalog(store)
        catalog.repositories.create_repository(REPOSITORY, f"file://{tmp_path}/namespace")
        run_processes(processes.work, url, tmp_path, "abcdef", "ab")
        catalog.resume()
        figures = check(catalog, tmp_path)
        catalog.close()
        assert [entry.key for entry in store.scan(b"cleanup-tokens")] == []
    assert figures["commits"] >= 10, figures
    assert figures["calls"] - figures["failed"] >= 100, figures


def test_processes_at_one_repository_name_never_meet_half_a_repository(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_database()
    run_processes(processes.live, url, tmp_path, "abcd", "a", f"file://{tmp_path}/namespaces")
    found = list(calls(tmp_path))
    made = [call["partition"] for call in found if call.get("partition")]
    assert len(made) == len(set(made))
    assert len(made) >= 10
    with open_store(url) as store:
        catalog = open_catalog(store, "step-2")
        require_whole_or_gone(catalog)
        record = catalog.refs.repositories.peek(REPOSITORY)
        named = {b"-".join(entry.key.split(b"/")[1:]).decode() for entry in store.scan(b"graveler_deleted")}
        named |= {record.partition.decode()} if record else set()
        assert set(made) <= named  # each life is still there, or the cleaner knows of it
        catalog.close()


def require_whole_or_gone(catalog: Catalog) -> None:
    try:
        catalog.repositories.get_repository(REPOSITORY)
    except MissingError:
        return
    except RepositoryInDeletionError:  # a killed deletion
        catalog.repositories.delete_repository(REPOSITORY)
        return
    branch = catalog.branches.get_branch(REPOSITORY, "main")
    assert catalog.commits.get_commit(REPOSITORY, branch.commit_id)
