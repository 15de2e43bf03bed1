"""Imports: what lies elsewhere becomes a commit where it lies."""

import itertools
from datetime import datetime

import pytest

from dredge.storage import ObjectReader, open_reader, open_writer
from lakefs_embedded.catalog import ImportPath, ImportStatus
from lakefs_embedded.errors import InvalidValueError
from tests.support.lakes import Lake, make_lake

_numbers = itertools.count()


@pytest.fixture
def outside() -> str:
    """URI of a folder that is no repository's, with some objects."""
    uri = f"memory://outside-{next(_numbers)}/warehouse"
    writer = open_writer(uri)
    for key in ("sales/1", "sales/2", "sales/deep/3", "sales-old/1", "marker/", "one"):
        writer.put(key, key.encode())
    return uri


def prefix(path: str, destination: str) -> ImportPath:
    return ImportPath("common_prefix", path, destination)


def single(path: str, destination: str) -> ImportPath:
    return ImportPath("object", path, destination)


def run(lake: Lake, *paths: ImportPath, branch: str = "main", **more: object) -> ImportStatus:
    started = lake.catalog.imports.import_start(
        lake.repository,
        branch,
        paths,
        open_reader,
        committer="importer",
        **more,  # type: ignore[arg-type]
    )
    return lake.catalog.imports.import_status(lake.repository, started)


def test_a_folder_becomes_a_folder_and_nothing_is_copied(outside: str) -> None:
    lake = make_lake()
    lake.upload("kept", b"k")
    lake.commit("before")
    keys = lake.keys()
    status = run(lake, prefix(f"{outside}/sales/", "in/"), metadata={"k": "v"})
    assert (status.completed, status.ingested_objects, status.error) == (True, 3, None)
    assert lake.paths() == ["in/1", "in/2", "in/deep/3", "kept"]
    assert lake.read("in/deep/3") == b"sales/deep/3"
    found = lake.catalog.reading.stat(lake.repository, "main", "in/1")
    assert (found.physical_address, found.size_bytes) == (f"{outside}/sales/1", 7)
    assert lake.keys() == keys
    commit = lake.catalog.commits.get_commit(lake.repository, "main")
    assert status.commit == commit
    assert status.metarange_id == commit.metarange_id
    assert (commit.committer, commit.message) == ("importer", "Import objects")
    assert commit.metadata == {"k": "v", ".lakefs.merge.strategy": "source-wins"}
    told = lake.catalog.repositories.get_repository_metadata(lake.repository)
    assert told == {".lakefs.last.import.timestamp": str(int(commit.creation_date.timestamp()))}
    assert found.content_type == "application/octet-stream"


def test_an_imported_folder_replaces_that_folder_and_no_other(outside: str) -> None:
    lake = make_lake()
    for path in ("in/1", "in/gone", "in-other/1", "in", "z"):
        lake.upload(path, b"old")
    lake.commit("before")
    run(lake, prefix(f"{outside}/sales/", "in"))
    assert lake.paths() == ["in", "in-other/1", "in/1", "in/2", "in/deep/3", "z"]
    assert lake.read("in/1") == b"sales/1"
    assert lake.read("in-other/1") == b"old"


def test_an_object_replaces_its_path_and_nothing_that_begins_like_it(outside: str) -> None:
    lake = make_lake()
    for path in ("a", "a/b", "ab"):
        lake.upload(path, b"old")
    lake.commit("before")
    run(lake, single(f"{outside}/one", "a"), message="one of them")
    assert lake.read("a") == b"one"
    assert lake.paths() == ["a", "a/b", "ab"]
    assert lake.catalog.commits.get_commit(lake.repository, "main").message == "one of them"


def test_a_source_inside_the_namespace_or_around_it_is_refused(outside: str) -> None:
    lake = make_lake()
    namespace = lake.namespace
    for bad in (
        prefix(f"{namespace}/data/", "x/"),
        prefix(namespace, "x/"),
        prefix(namespace.rpartition("/")[0] + "/", "x/"),
        prefix(namespace[:-2], "x/"),
        single(f"{namespace}/_lakefs/dummy", "x"),
        single(f"{outside}/one", ""),
        prefix("no-uri", "x/"),
    ):
        with pytest.raises(InvalidValueError):
            run(lake, bad)
    assert not [key for key in lake.rows(lake.catalog.repositories.get_repository(lake.repository).partition.decode())
                if key.startswith(b"imports/")]  # fmt: skip


def test_a_source_in_another_repositorys_namespace_is_refused_because_its_collection_would_delete_it(
    outside: str,
) -> None:
    lake = make_lake()
    lake.catalog.repositories.create_repository("other", f"{outside}/other")
    for bad in (prefix(f"{outside}/other/data/", "x/"), single(f"{outside}/other/data/a", "x"),
                prefix(f"{outside}/", "x/")):  # fmt: skip
        with pytest.raises(InvalidValueError, match="import source"):
            run(lake, bad)
    assert run(lake, prefix(f"{outside}/sales/", "x/")).completed


def test_a_namespace_is_no_source_in_whatever_spelling(outside: str) -> None:
    lake = make_lake()
    other = lake.namespace.replace("memory://", "memory://./")
    with pytest.raises(InvalidValueError, match="prohibited"):
        run(lake, prefix(f"{other}/data/", "in/"), spelled=lambda uri: uri.replace("://./", "://"))


def test_an_import_that_is_cancelled_while_it_runs_makes_no_commit(outside: str) -> None:
    lake = make_lake()
    head = lake.catalog.branches.get_branch(lake.repository, "main").commit_id
    partition = lake.catalog.repositories.get_repository(lake.repository).partition

    def cancel_first(uri: str) -> ObjectReader:
        [key] = [each for each in lake.rows(partition.decode()) if each.startswith(b"imports/")]
        lake.catalog.imports.import_cancel(lake.repository, key.decode().removeprefix("imports/"))
        canceled.append(lake.clock())
        lake.clock.advance(minutes=5)
        return open_reader(uri)

    canceled: list[datetime] = []

    started = lake.catalog.imports.import_start(
        lake.repository, "main", [prefix(f"{outside}/sales/", "in/")], cancel_first, committer="x"
    )
    status = lake.catalog.imports.import_status(lake.repository, started)
    assert (status.completed, status.error, status.update_time) == (False, "Canceled", *canceled)
    assert lake.catalog.branches.get_branch(lake.repository, "main").commit_id == head
