"""How the key-value store is named to tasks."""

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords
from dredge.gc.mark_uncommitted.kv_store import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, URL
from dredge.kv.dynamodb import AwsKeys
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.refs.records import Tag, branch_record
from tests.support.kv_world import World


def test_the_store_goes_to_other_processes_by_environment_and_never_shows() -> None:
    access = KVAccess("postgresql://u:secret@h/db", AwsKeys("id", "key", "token"))
    env = access.to_env()
    assert env == {
        URL: "postgresql://u:secret@h/db",
        ACCESS_KEY: "id",
        SECRET_KEY: "key",
        SESSION_TOKEN: "token",
    }
    assert KVAccess.from_env(env) == access
    assert KVAccess.from_env({URL: "sqlite:///x.db"}) == KVAccess("sqlite:///x.db")
    assert "secret" not in repr(access)
    assert "key" not in repr(access).replace("keys", "")


@pytest.mark.parametrize("session", [None, "token"])
def test_keys_go_to_other_processes_with_a_session_where_they_have_one(session: str | None) -> None:
    access = KVAccess("dynamodb://t", AwsKeys("id", "key", session))
    env = access.to_env()
    assert (SESSION_TOKEN in env) is (session is not None)
    assert KVAccess.from_env(env) == access
    assert KVAccess.from_env(env | {SESSION_TOKEN: session or ""}) == access


@pytest.mark.parametrize("missing", [ACCESS_KEY, SECRET_KEY])
def test_half_a_key_is_none(missing: str) -> None:
    env = KVAccess("dynamodb://t", AwsKeys("id", "key")).to_env()
    assert KVAccess.from_env({name: value for name, value in env.items() if name != missing}).keys is None
    assert KVAccess("dynamodb://t").to_env() == {URL: "dynamodb://t"}


NAMESPACE = "s3://b/lake"
SCHEMA = (b"kv-internal-metadata", b"kv/schema/version")


@pytest.fixture
def world() -> World:
    made = World()
    made.repository("lake")
    return made


def records(world: World, repository: str = "lake", namespace: str = NAMESPACE) -> RepositoryRecords:
    with world.store.view() as view:
        return RepositoryRecords(repository, namespace, view, "the store")


def partition_of(world: World) -> bytes:
    record = world.kv.get(b"graveler", b"repos/lake")
    assert record is not None
    return Repository.decode(record).partition


def test_the_store_of_another_installation_or_schema_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="other"):
        records(world, "other")
    with pytest.raises(RefusedError, match="elsewhere"):
        records(world, namespace="s3://b/elsewhere")
    assert records(world, namespace="s3a://b/lake/").heads == {}
    world.kv.set(*SCHEMA, b"5")
    with pytest.raises(RefusedError, match="version 5"):
        records(world)
    world.kv.delete(*SCHEMA)
    assert records(world).heads == {}


def test_a_repository_that_is_being_deleted_is_refused(world: World) -> None:
    world.record(partition_of(world), messages.RepositoryState.IN_DELETION)
    with pytest.raises(RefusedError, match="being deleted"):
        records(world)


def test_a_record_that_names_another_thing_than_its_key_is_damage(world: World) -> None:
    partition = partition_of(world)
    found = records(world)
    (main,) = found.branches()
    assert found.heads == {"main": main.commit_id}
    commit = found.commits()[main.commit_id]
    assert commit.id == main.commit_id
    world.kv.set(partition, b"branches/other", branch_record(main))
    with pytest.raises(FormatError, match="branches/other"):
        records(world).branches()
    row = world.kv.get(partition, b"commits/" + main.commit_id.encode())
    assert row is not None
    world.kv.set(partition, b"commits/" + b"0" * 64, row)
    with pytest.raises(FormatError, match="commits/" + "0" * 64):
        records(world).commits()


def test_refs_are_all_of_them_and_nothing_beside(world: World) -> None:
    partition = partition_of(world)
    (main,) = records(world).branches()
    world.branch(partition, "side", main.commit_id, world.token("lake", "side"), sealed=["old"])
    world.tag(partition, "v1", main.commit_id)
    world.kv.set(partition, b"branchet", b"no branch")
    world.kv.set(partition, b"tagt", b"no tag")
    found = records(world)
    assert [branch.name for branch in found.branches()] == ["main", "side"]
    assert found.heads == dict.fromkeys(("main", "side"), main.commit_id)
    assert [(tag.id, tag.commit_id) for tag in found.tags()] == [("v1", main.commit_id)]
    assert found.consistent
    assert found.unknown == []


def test_tombstones_stage_nothing(world: World) -> None:
    token = world.token("lake", "main")

    def stage(path: str, identity: bytes) -> None:
        entry = messages.Entry(address=f"data/{path}", address_type=1)
        row = messages.StagedEntryData(key=path.encode(), identity=identity, data=messages.encode(entry))
        world.kv.set(token.encode(), path.encode(), messages.encode(row))

    stage("a", b"i")
    stage("b", b"")
    found = records(world)
    assert list(found.staged(token)) == [("data/a",)]
    assert list(found.copies()) == []
    copy = messages.encode(messages.Entry(address="data/c", address_type=1))
    world.kv.set(partition_of(world), b"copies/c", copy)
    assert list(records(world).copies()) == [("data/c",)]


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        (b"branches/new", branch_record(Branch("new", "c" * 64, "t")), "branches"),
        (b"tags/new", Tag("new", "c" * 64).encode(), "tags"),
        (b"commits/new", messages.encode(messages.CommitData(id="new")), "commits"),
        (b"copies/new", messages.encode(messages.Entry(address="data/c")), "copies"),
    ],
)
def test_a_record_with_fields_of_a_newer_version_is_told_by_its_name(
    world: World, key: bytes, value: bytes, read: str
) -> None:
    world.kv.set(partition_of(world), key, value + b"\xfa\x3f\x01x")  # field 1023
    found = records(world)
    list(getattr(found, read)())
    assert found.unknown == [key.decode()]
