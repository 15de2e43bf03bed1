"""What a catalog does with a repository that is being created or deleted, and what the trash cleaner does
after it."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key
from dredge.storage import open_writer
from dredge.trash.findings import TrashLimits, TrashMargins
from dredge.trash.state import TrashState
from dredge.trash.steps import CleanReport, clean
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.catalog.garbage import Rules
from lakefs_embedded.errors import NotUniqueError, RepositoryInDeletionError, RepositoryNotFoundError
from lakefs_embedded.kv import MemoryKV
from lakefs_embedded.refs.records import repository_record
from lakefs_embedded.refs.repositories import LifeCycle, in_state
from tests.support.faulty import CrashError, crash_after_writes
from tests.support.kv_world import Store as RowStore
from tests.support.lakes import Lake, make_lake
from tests.support.memory_rows import MemoryRows

STEPS: tuple[LifeCycle, ...] = ("step-1", "step-2")
OTHERWISE = {"create_repository", "delete_repository", "list_repositories", "close", "resume"}
ARGUMENTS: dict[str, Any] = {
    "repository": "lake",
    "branch": "main",
    "ref": "main",
    "left": "main",
    "right": "main",
    "source": "main",
    "destination": "main",
    "path": "a",
    "paths": ["a"],
    "source_path": "a",
    "committer": "me",
    "message": "m",
    "tag": "v1",
    "content": b"",
    "content_type": "text/plain",
    "physical_address": "s3://elsewhere/a",
    "checksum": "00",
    "size_bytes": 1,
    "metadata": {},
    "patterns": [],
    "object_id": "ab" * 32,
    "task_id": "none",
    "upload_id": "none",
    "number": 1,
    "chunks": [],
    "parts": [],
}


def made(life_cycle: LifeCycle, kv: MemoryKV | None = None, name: str = "lake") -> Lake:
    return make_lake(settings=Settings(background=False, life_cycle=life_cycle), kv=kv, repository=name)


def other_calls(lake: Lake) -> dict[str, Callable[[], object]]:
    """Every call of a catalog on one repository, with arguments that would do."""
    arguments = ARGUMENTS | {"commit": lake.catalog.commits.get_commit("lake", "main"), "rules": Rules(7, {})}
    calls: dict[str, Callable[[], object]] = {}
    for name, method in service_methods(lake.catalog):
        needed = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is parameter.empty
        ]
        if name.startswith("_") or name in OTHERWISE or needed[:1] != ["repository"]:
            continue
        if any(argument not in arguments for argument in needed):
            continue
        found = {argument: arguments[argument] for argument in needed}
        calls[name] = partial(method, **found)
    return calls


def service_methods(catalog: Catalog) -> Iterator[tuple[str, Callable[..., object]]]:
    for service in vars(catalog).values():
        if type(service).__name__.endswith("Service"):
            yield from inspect.getmembers(service, inspect.ismethod)


def put_record(lake: Lake, repository: Repository) -> None:
    lake.kv.set(REPOSITORIES_PARTITION, repository_key(repository.name), repository_record(repository))


@pytest.mark.parametrize("life_cycle", STEPS)
def test_every_other_call_is_refused_while_a_repository_is_created_or_deleted(life_cycle: LifeCycle) -> None:
    lake = made(life_cycle)
    lake.upload("a")
    repository = lake.catalog.repositories.get_repository("lake")
    calls = other_calls(lake)
    assert len(calls) >= 40
    states: list[tuple[str, type[Exception]]] = [("in-deletion", RepositoryInDeletionError)]
    if life_cycle == "step-2":
        states.append(("initial", RepositoryNotFoundError))
    for state, refusal in states:
        put_record(lake, in_state(repository, state))  # type: ignore[arg-type]
        rows, objects = everything(lake), lake.keys("")
        for name, call in calls.items():
            with pytest.raises(refusal):
                assert not call(), name
        assert (everything(lake), lake.keys("")) == (rows, objects)
        assert lake.catalog.repositories.list_repositories().results == []
        with pytest.raises((NotUniqueError, RepositoryInDeletionError)):
            lake.catalog.repositories.create_repository("lake", lake.namespace + "-2")
        assert lake.open_namespace(lake.namespace + "-2").list_level("").objects == []  # not claimed


def everything(lake: Lake) -> dict[bytes, dict[bytes, bytes]]:
    assert isinstance(lake.kv, MemoryKV)
    return partitions(lake.kv)


def partitions(kv: MemoryKV) -> dict[bytes, dict[bytes, bytes]]:
    return {name: dict(found.values) for name, found in kv._partitions.items()}


def store_with_keeper() -> MemoryKV:
    """The cleaner refuses a store without any repository."""
    kv = MemoryKV()
    kv.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
    made("step-2", kv, "keeper")
    return kv


def test_one_record_that_cannot_be_read_does_not_keep_a_server_from_starting() -> None:
    lake = made("step-2")
    lake.kv.set(REPOSITORIES_PARTITION, b"repos/abc", b"\xff\xff")
    lake.upload("a")
    lake.another_server().resume()
    assert lake.paths() == ["a"]


# --- the trash cleaner -------------------------------------------------------------------------------------


class Cleaner:
    """Runs of the trash cleaner on a lake's store."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        assert isinstance(lake.kv, MemoryKV)
        self.lake = lake
        self.rows = RowStore(MemoryRows(lake.kv))
        self.state = TrashState(open_writer(f"file://{folder}/state"))

    def run(self) -> CleanReport:
        self.rows.now = self.lake.clock()
        return clean(
            self.rows,
            self.state,
            clock=self.lake.clock,
            margins=TrashMargins(),
            limits=TrashLimits(partitions=100, partition_percent=100),
            dry_run=False,
        )

    def run_twice(self) -> CleanReport:
        self.run()
        self.lake.clock.advance(days=2)
        return self.run()


def test_delete_in_step_2_then_clean_removes_everything_and_nothing_of_others(tmp_path: Path) -> None:
    kv = MemoryKV()
    kv.set(b"kv-internal-metadata", b"kv/schema/version", b"4")
    keeper = made("step-2", kv, "lake-2")  # a name that begins like the other's
    keeper.upload("kept")
    keeper.commit()
    keeper.upload("staged")
    others = set(everything(keeper))
    before = {name: rows for name, rows in everything(keeper).items() if name != REPOSITORIES_PARTITION}

    lake = made("step-2", kv)
    lake.clock = keeper.clock
    for number in range(3):
        lake.upload(f"{number}")
        lake.commit()
        lake.catalog.branches.create_branch("lake", f"side-{number}", "main")
        lake.upload("staged", branch=f"side-{number}")
    lake.catalog.tags.create_tag("lake", "v1", "main")
    lake.catalog.repositories.set_branch_protection("lake", ["release"])
    lake.catalog.repositories.create_repository("barely", lake.namespace + "-bare", bare=True)
    for name in ("lake", "barely"):
        lake.catalog.repositories.delete_repository(name)
    lake.catalog.repositories.create_repository("lake", lake.namespace + "-2")  # the name is free at once
    lake.catalog.objects.upload_object("lake", "main", "new", b"new")
    live = lake.catalog.repositories.get_repository("lake").partition
    (token,) = lake.tokens()
    assert len(lake.rows("graveler_deleted")) == 2

    cleaner = Cleaner(keeper, tmp_path)
    report = cleaner.run_twice()
    handed_over = [o for o in report.outcomes if o.finding.kind == "deleted-repository"]
    assert [(o.finding.key is None, o.fate) for o in handed_over] == [
        (True, "deleted"), (False, "deleted"), (False, "deleted")
    ]  # fmt: skip
    assert lake.rows("graveler_deleted") == []
    for _ in range(3):  # a token that an earlier look saw named is held for 30 days, and waits then
        keeper.clock.advance(days=31)
        cleaner.run()
    assert set(everything(keeper)) == others | {live, token.encode()}
    assert {name: everything(keeper)[name] for name in before} == before
    assert keeper.paths() == ["kept", "staged"]
    assert lake.catalog.reading.list_entries("lake", "main").results[0].path == "new"
    assert cleaner.run().rows_removed == 0


def test_a_cleaner_between_any_two_writes_of_a_deletion_harms_nobody(tmp_path: Path) -> None:
    for writes in range(10):
        kv = store_with_keeper()
        lake = made("step-2", kv)
        lake.upload("a")
        lake.commit()
        lake.upload("staged")
        lake.clock.advance(days=9)
        cleaner = Cleaner(lake, tmp_path / str(writes))
        try:
            lake.another_server(crash_after_writes(kv, writes)).repositories.delete_repository("lake")
        except CrashError:
            cleaner.run_twice()
            if writes == 0:
                assert lake.paths() == ["a", "staged"]
            lake.catalog.repositories.delete_repository("lake")
        else:
            break
        cleaner.run_twice()
        assert lake.rows("graveler_deleted") == []
        assert [name for name in everything(lake) if name.startswith(b"lake-") and b":" not in name] == []
    assert writes == 3
