"""Commits, merges, comparisons over HTTP."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import lakefs
import lakefs_sdk
import pytest
from lakefs.exceptions import BadRequestException, ConflictException

from tests.support.lakefs_server import Lake


@pytest.fixture
def shop(lake: Lake) -> lakefs.Repository:
    repository = lake.repository("shop")
    put(repository, "main", a=b"1")
    return repository


def put(repository: lakefs.Repository, branch: str, **objects: bytes) -> str:
    """Upload and commit; gives the commit's id."""
    target = repository.branch(branch)
    for path, content in objects.items():
        target.object(path).upload(content)
    return target.commit(f"add {' '.join(objects)}").id


def test_a_commit_has_everything_a_client_reads(shop: lakefs.Repository, lake: Lake) -> None:
    main = shop.branch("main")
    parent = main.head.id
    main.object("b").upload(b"1")
    made = main.commit("why", metadata={"who": "me é"}).get_commit()
    assert (made.message, made.committer, made.parents) == ("why", "admin", [parent])
    assert made.metadata == {"who": "me é"}
    full = lake.sdk.commits_api.get_commit("shop", made.id)
    assert (full.generation, full.version, len(full.meta_range_id)) == (3, 1, 64)


def test_a_commit_can_be_dated(shop: lakefs.Repository) -> None:
    main = shop.branch("main")
    for path, date in (("b", 0), ("c", 4102444800)):
        main.object(path).upload(b"1")
        assert main.commit("dated", date=date).get_commit().creation_date == date


def test_committing_nothing_is_400_unless_allowed(shop: lakefs.Repository) -> None:
    main = shop.branch("main")
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("empty")
    assert main.commit("empty", allow_empty=True).get_commit().message == "empty"


def test_the_log_goes_back_in_pages(shop: lakefs.Repository, lake: Lake) -> None:
    ids = [put(shop, "main", **{f"p{number}": b"1"}) for number in range(5)]
    assert [each.id for each in shop.branch("main").log(amount=2)][:5] == ids[::-1]
    assert len(list(shop.branch("main").log(amount=2))) == 7
    page = lake.sdk.refs_api.log_commits("shop", "main", amount=2)
    assert (page.pagination.has_more, page.pagination.next_offset) == (True, ids[-2])


def test_the_log_can_be_narrowed(shop: lakefs.Repository) -> None:
    put(shop, "main", b=b"1")
    changed = put(shop, "main", a=b"2")
    log = shop.branch("main").log
    assert next(log(objects=["a"])).id == changed
    assert len(list(log(objects=["a"]))) == 2
    assert len(list(log(prefixes=["b"]))) == 1
    assert len(list(log(limit=True, amount=1))) == 1
    assert [each.id for each in log(stop_at=changed)] == [changed]
    assert list(log(since=datetime(2100, 1, 1, tzinfo=UTC))) == []


def test_a_merge_brings_changes_over(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main")
    head = put(shop, "dev", b=b"1")
    main = shop.branch("main")
    merged = shop.branch("dev").merge_into(main, message="bring", metadata={"k": "v"})
    commit = main.get_commit()
    assert commit.id == merged
    assert commit.parents[1] == head
    assert commit.metadata == {"k": "v", ".lakefs.merge.strategy": "default"}
    assert [each.path for each in main.objects()] == ["a", "b"]


def test_a_merge_conflict_is_409_with_a_body_of_its_own(shop: lakefs.Repository, lake: Lake) -> None:
    shop.branch("dev").create("main")
    put(shop, "dev", a=b"dev")
    put(shop, "main", a=b"main!")
    conflict = lake.http("POST", "/repositories/shop/refs/dev/merge/main")
    assert (conflict.status, conflict.data) == (409, b'{"reference":""}\n')
    with pytest.raises(ConflictException):
        shop.branch("dev").merge_into("main")


@pytest.mark.parametrize(("strategy", "content"), [("source-wins", b"dev"), ("dest-wins", b"main!")])
def test_a_strategy_settles_conflicts(shop: lakefs.Repository, strategy: str, content: bytes) -> None:
    shop.branch("dev").create("main")
    put(shop, "dev", a=b"dev", b=b"1")
    put(shop, "main", a=b"main!")
    shop.branch("dev").merge_into("main", strategy=strategy)
    assert shop.branch("main").object("a").reader().read() == content


def test_a_squash_merge_has_one_parent(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main")
    put(shop, "dev", b=b"1")
    shop.branch("dev").merge_into("main", squash_merge=True)
    assert len(shop.branch("main").get_commit().parents) == 1


def test_the_merge_base_is_where_they_parted(shop: lakefs.Repository, lake: Lake) -> None:
    base = shop.branch("main").head.id
    shop.branch("dev").create("main")
    dev, main = put(shop, "dev", b=b"1"), put(shop, "main", c=b"1")
    found = lake.sdk.refs_api.find_merge_base("shop", "dev", "main")
    assert (found.base_commit_id, found.source_commit_id, found.destination_commit_id) == (base, dev, main)


def test_reverting_a_merge_needs_a_parent_number(shop: lakefs.Repository) -> None:
    shop.branch("dev").create("main")
    put(shop, "dev", b=b"1")
    merged = shop.branch("dev").merge_into("main")
    main = shop.branch("main")
    with pytest.raises(ConflictException):
        main.revert(merged)
    main.revert(merged, parent_number=1)
    assert [each.path for each in main.objects()] == ["a"]


def test_a_commit_record_is_written_when_its_id_is_its_hash(shop: lakefs.Repository, lake: Lake) -> None:
    head = lake.sdk.commits_api.get_commit("shop", "main")
    record = lakefs_sdk.CommitRecordCreation(
        commit_id="0" * 64,
        version=0,
        committer="old",
        message="restored",
        metarange_id=head.meta_range_id,
        creation_date=1_000_000,
        parents=[head.id],
        metadata={},
        generation=9,
    )
    with pytest.raises(lakefs_sdk.exceptions.BadRequestException):
        lake.sdk.internal_api.create_commit_record("shop", record)
    record.commit_id = commit_id(record)
    lake.sdk.internal_api.create_commit_record("shop", record)
    written = lake.sdk.commits_api.get_commit("shop", record.commit_id)
    assert (written.version, written.generation, written.creation_date) == (0, 9, 1_000_000)


def commit_id(record: lakefs_sdk.CommitRecordCreation) -> str:
    """The hash of a commit, worked out here a second time, from the format's description."""

    def number(value: int) -> bytes:
        return b"\x02\x08" + value.to_bytes(8, "big", signed=True)

    def text(value: str) -> bytes:
        return b"\x01" + number(len(value.encode())) + value.encode()

    parents = hashlib.sha256(
        b"\x03" + number(len(record.parents)) + b"".join(map(text, record.parents))
    ).digest()
    parts = [text("commit:v1"), text(record.committer), text(record.message), text(record.metarange_id)]
    parts += [number(record.creation_date), b"\x04" + number(0)]
    parts.append(b"\x05\x00" + number(32) + parents)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_the_committer_is_who_committed(lake: Lake) -> None:
    lake.repository("shop")
    auth = lake.sdk.auth_api
    auth.create_user(user_creation=lakefs_sdk.UserCreation(id="bob"))
    auth.add_group_membership("Developers", "bob")
    made = auth.create_credentials("bob")
    client = lakefs.Client(
        host=lake.server.endpoint, username=made.access_key_id, password=made.secret_access_key
    )
    branch = lakefs.Repository("shop", client).branch("main")
    branch.object("a").upload(b"x")
    assert branch.commit("m").get_commit().committer == "bob"
