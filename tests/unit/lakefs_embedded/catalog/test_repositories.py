import pytest

from dredge.lakefs.files.records import Repository
from lakefs_embedded.errors import (
    BranchNotFoundError,
    LostRaceError,
    NamespaceInUseError,
    NotUniqueError,
    PreconditionError,
    ProtectedBranchError,
    ReadOnlyError,
    RepositoryNotFoundError,
)
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake


def create(lake: Lake, **more: bool) -> Repository:
    return lake.catalog.repositories.create_repository(lake.repository, lake.namespace, **more)


def test_a_namespace_is_taken_once_even_after_its_repository() -> None:
    lake = make_lake()
    with pytest.raises(NamespaceInUseError):
        lake.catalog.repositories.create_repository("other", lake.namespace)
    lake.catalog.repositories.delete_repository(lake.repository)
    with pytest.raises(NamespaceInUseError):
        create(lake)


def test_trap_16_bare_and_read_only_repositories_may_share_a_namespace() -> None:
    lake = make_lake()
    lake.catalog.repositories.create_repository("bare-one", lake.namespace, bare=True)
    lake.catalog.repositories.create_repository("reader", lake.namespace, read_only=True)
    assert lake.rows(lake.catalog.repositories.get_repository("bare-one").partition.decode()) == []
    assert lake.catalog.branches.get_branch("reader", "main")
    with pytest.raises(BranchNotFoundError):
        lake.catalog.branches.get_branch("bare-one", "main")


def test_deleting_removes_records_and_leaves_objects_and_staging() -> None:
    lake = make_lake()
    lake.upload("a")
    lake.commit()
    lake.catalog.tags.create_tag(lake.repository, "v1", "main")
    lake.upload("b")
    (token,) = lake.tokens()
    partition = lake.catalog.repositories.get_repository(lake.repository).partition.decode()
    objects = lake.keys("")
    lake.catalog.repositories.delete_repository(lake.repository)
    assert lake.rows(partition) == []
    assert lake.rows(token) == [b"b"]
    assert lake.keys("") == objects
    with pytest.raises(RepositoryNotFoundError):
        lake.catalog.repositories.get_repository(lake.repository)
    with pytest.raises(RepositoryNotFoundError):
        lake.catalog.repositories.delete_repository(lake.repository)


def test_of_two_creates_at_once_one_wins_and_the_other_leaves_a_partition_nobody_names() -> None:
    lake = make_lake(create=False)

    def race(operation: Operation) -> None:
        if operation.name == "set_if" and operation.key.startswith(b"repos/"):
            lake.catalog.repositories.create_repository(lake.repository, lake.namespace + "-winner")

    loser = lake.another_server(WatchedStore(lake.kv, race))
    with pytest.raises(NotUniqueError):
        loser.repositories.create_repository(lake.repository, lake.namespace)
    assert (
        lake.catalog.repositories.get_repository(lake.repository).storage_namespace
        == lake.namespace + "-winner"
    )


def test_a_read_only_repository_refuses_every_write() -> None:
    lake = make_lake(create=False)
    create(lake, read_only=True)
    catalog, name = lake.catalog, lake.repository
    for call in (
        lambda: lake.upload("a"),
        lambda: lake.commit(),
        lambda: catalog.branches.create_branch(name, "b", "main"),
        lambda: catalog.objects.delete_object(name, "main", "a"),
        lambda: catalog.branches.reset_branch(name, "main"),
        lambda: catalog.tags.create_tag(name, "v1", "main"),
        lambda: catalog.garbage.delete_gc_rules(name),
        lambda: catalog.garbage.prepare_commits(name),
        lambda: catalog.garbage.prepare_commits_async(name),
        lambda: catalog.garbage.prepare_uncommitted(name),
        lambda: catalog.addresses.get_physical_address(name, "main", "a"),
        lambda: catalog.repositories.delete_repository(name),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            call()
        assert (caught.value.status, str(caught.value)) == (403, "read-only repository")
    lake.upload("a", force=True)
    assert lake.paths() == ["a"]
    catalog.repositories.delete_repository(name, force=True)


def test_protected_branches_take_merges_only() -> None:
    lake = make_lake()
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    assert lake.catalog.repositories.get_branch_protection(lake.repository) == ([], "")
    lake.catalog.repositories.set_branch_protection(lake.repository, ["ma*", "release-?"])
    patterns, etag = lake.catalog.repositories.get_branch_protection(lake.repository)
    assert patterns == ["ma*", "release-?"]
    with pytest.raises(ProtectedBranchError, match="write"):
        lake.upload("a")
    with pytest.raises(ProtectedBranchError, match="commit"):
        lake.commit()
    lake.upload("a", branch="side")
    lake.commit(branch="side")
    lake.catalog.merges.merge(lake.repository, "side", "main", committer="t")
    assert lake.paths("main@") == ["a"]
    with pytest.raises(PreconditionError):
        lake.catalog.repositories.set_branch_protection(lake.repository, [], if_match="stale")
    lake.catalog.repositories.set_branch_protection(lake.repository, [], if_match=etag)
    lake.upload("b")


def test_of_two_changes_of_the_metadata_at_once_one_is_lost_and_says_so() -> None:
    lake = make_lake()
    repositories = lake.catalog.repositories
    repositories.update_repository_metadata(lake.repository, put={"a": "1"})

    def meanwhile(operation: Operation) -> None:
        if operation.name == "set_if" and not raced:
            raced.append(operation)
            lake.another_server().repositories.update_repository_metadata(lake.repository, put={"b": "2"})

    raced: list[Operation] = []
    watched = lake.another_server(WatchedStore(lake.kv, meanwhile))
    with pytest.raises(LostRaceError) as lost:
        watched.repositories.update_repository_metadata(lake.repository, put={"c": "3"})
    assert (lost.value.status, str(lost.value)) == (500, "predicate failed")
    assert repositories.get_repository_metadata(lake.repository) == {"a": "1", "b": "2"}


def test_metadata_of_a_read_only_repository_can_be_set() -> None:
    lake = make_lake(create=False)
    create(lake, read_only=True)
    lake.catalog.repositories.update_repository_metadata(lake.repository, put={"a": "1"})
    assert lake.catalog.repositories.get_repository_metadata(lake.repository) == {"a": "1"}
