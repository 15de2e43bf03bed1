import pytest

from lakefs_embedded.catalog import Settings
from lakefs_embedded.errors import NoChangesError, TooManyTriesError
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakes import Lake, make_lake


@pytest.fixture
def lake() -> Lake:
    """Committed a/1 a/2 b/1; staged: a/1 changed, a/2 deleted, a/3 new, b/1 changed, c new."""
    lake = make_lake()
    for path in ("a/1", "a/2", "b/1"):
        lake.upload(path, b"old")
    lake.commit()
    lake.upload("a/1", b"new")
    lake.catalog.objects.delete_object(lake.repository, "main", "a/2")
    for path in ("a/3", "b/1", "c"):
        lake.upload(path, b"new")
    return lake


def test_resetting_an_object_restages_the_committed_address(lake: Lake) -> None:
    committed = lake.catalog.reading.stat(lake.repository, "main@", "a/1")
    lake.catalog.branches.reset_branch(lake.repository, "main", kind="object", path="a/1")
    assert lake.catalog.reading.stat(lake.repository, "main", "a/1") == committed
    assert b"a/1" in lake.rows(lake.tokens()[0])


def test_a_reset_by_prefix_that_always_loses_says_so_and_changes_nothing() -> None:
    lake = make_lake(settings=Settings(background=False, write_tries=2))
    lake.upload("a/1", b"new")
    repository = lake.catalog.repositories.get_repository(lake.repository)

    def race(operation: Operation) -> None:
        if operation.name == "set_if" and operation.key == b"branches/main":
            lake.another_server().staging.protocol.seal(repository, "main")

    with pytest.raises(TooManyTriesError):
        lake.another_server(WatchedStore(lake.kv, race)).branches.reset_branch(
            lake.repository, "main", kind="common_prefix", path="b/"
        )
    assert lake.paths() == ["a/1"]


def test_a_reset_whose_answer_is_lost_does_not_queue_the_token_it_made(lake: Lake) -> None:
    """The record was changed, yet the caller hears of an error; a real server then drops the live token."""

    def lose(operation: Operation) -> None:
        if operation.name == "set_if" and operation.key == b"branches/main":
            raise OSError("connection lost")

    server = lake.another_server(WatchedStore(lake.kv, after=lose))
    with pytest.raises(OSError, match="lost"):
        server.branches.reset_branch(lake.repository, "main", kind="common_prefix", path="a/")
    lake.upload("late")
    lake.catalog.resume()
    assert lake.paths() == ["a/1", "a/2", "b/1", "c", "late"]
    assert lake.rows("cleanup-tokens") == []


def test_traps_6_and_45_identical_content_uploaded_again_is_live_and_invisible() -> None:
    lake = make_lake()
    first = lake.upload("twin", b"same")
    lake.commit()
    second = lake.upload("twin", b"same")
    assert second.physical_address != first.physical_address
    assert lake.catalog.branches.diff_branch(lake.repository, "main").results == []
    lake.catalog.branches.reset_branch(lake.repository, "main", kind="object", path="twin")  # does nothing
    assert (
        lake.catalog.reading.stat(lake.repository, "main", "twin").physical_address == second.physical_address
    )
    lake.upload("other")
    lake.commit()  # keeps the committed address and drops the new one
    assert (
        lake.catalog.reading.stat(lake.repository, "main", "twin").physical_address == first.physical_address
    )


def test_trap_46_a_hard_reset_keeps_what_is_staged() -> None:
    lake = make_lake()
    lake.upload("a", b"1")
    first = lake.commit("first")
    lake.upload("a", b"2")
    lake.commit("second")
    lake.upload("a", b"2")  # identical to the head: no difference
    lake.upload("b", b"b")
    assert [diff.path for diff in lake.catalog.branches.diff_branch(lake.repository, "main").results] == ["b"]
    lake.catalog.branches.hard_reset(lake.repository, "main", first.id)
    assert lake.read("a") == b"2"
    assert [diff.path for diff in lake.catalog.branches.diff_branch(lake.repository, "main").results] == [
        "a",
        "b",
    ]


# The writer's and the reader's flow, and that writing twice is writing once.


def commit_elsewhere(lake: Lake) -> None:
    lake.another_server().commits.commit(
        lake.repository, "main", committer="t", message="elsewhere", allow_empty=True
    )


def test_a_write_into_a_token_that_is_dropped_already_is_not_lost() -> None:
    """The writer's cached branch names a token that another server's commit has emptied and dropped."""
    lake = make_lake(settings=Settings(background=False))
    writer = lake.another_server()
    writer.objects.upload_object(
        lake.repository, "main", "a", b"a"
    )  # the branch is in the writer's cache now
    commit_elsewhere(lake)
    writer.objects.upload_object(lake.repository, "main", "b", b"b")
    assert lake.paths() == ["a", "b"]
    lake.commit()
    assert lake.paths("main@") == ["a", "b"]


# The committer's flow beside others who commit, write, reset and delete.


def test_each_refused_commit_leaves_one_sealed_token() -> None:
    lake = make_lake()
    for expected in (1, 2):
        with pytest.raises(NoChangesError):
            lake.commit()
        assert len(lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens) == expected
    lake.upload("a")
    lake.commit()
    assert lake.catalog.branches.get_branch(lake.repository, "main").sealed_tokens == ()


def queue_by_hand(lake: Lake, token: str) -> None:
    lake.kv.set(b"cleanup-tokens", token.encode(), b"stub-value")


def test_a_queued_token_that_a_branch_names_is_kept() -> None:
    """A real server deletes uncommitted data here: a reset whose answer was lost can queue a token in use."""
    lake = make_lake()
    lake.upload("sealed")
    lake.catalog.staging.protocol.seal(lake.catalog.repositories.get_repository(lake.repository), "main")
    lake.upload("current")
    for token in lake.tokens():
        queue_by_hand(lake, token)
    lake.catalog.resume()
    assert lake.paths() == ["current", "sealed"]
    assert lake.rows("cleanup-tokens") == []


def test_names_with_dashes_do_not_hide_a_reference() -> None:
    """`a-b` + `c` and `a` + `b-c` make the same token text; only branch records tell whose it is."""
    short = make_lake(repository="abc")
    short.catalog.branches.create_branch("abc", "de-f", "main")
    short.upload("x", branch="de-f")
    twin = make_lake(repository="abc-de", kv=short.kv)
    twin.catalog.branches.create_branch("abc-de", "f", "main")
    twin.upload("y", branch="f")
    for lake, branch in ((short, "de-f"), (twin, "f")):
        (token,) = lake.tokens(branch)
        assert token.startswith("abc-de-f:")
        queue_by_hand(lake, token)
    twin.catalog.resume()
    assert short.paths("de-f") == ["x"]
    assert twin.paths("f") == ["y"]
