"""Each rule of the cleaner is there for a loss: with all of them nothing is lost.

An embedded lakeFS on PostgreSQL is held at an exact point of an operation while the cleaner runs beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dredge.lakefs.files import messages
from dredge.trash.apply import NamedAgainError
from dredge.undo.alarms import acknowledge_alarms
from lakefs_embedded.errors import GravelerError
from tests.support.faulty import Operation
from tests.support.kv_hunt import Crash, Gate, Ground, hunting_ground
from tests.support.kv_world import countdown_id
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.system
GRACE = 0.4


@pytest.fixture
def ground(postgres: PostgresServer, tmp_path: Path) -> Iterator[Ground]:
    with hunting_ground(postgres.new_database(), tmp_path, GRACE, id_age=3600) as made:
        made.create("keeper")
        yield made


@pytest.fixture
def lake(ground: Ground) -> Ground:
    """A repository `lake` with a commit on `main`, and a newer upload on top of it."""
    ground.create("lake")
    ground.upload("lake", "main", "x/1", 1)
    ground.upload("lake", "main", "x/2", 2)
    ground.commit("lake", "main")
    ground.upload("lake", "main", "x/1", 11)
    return ground


# The stories. Each ends with a loss or without; a put-back during the run counts as one: something live
# was removed.


def reset_during_two_looks_at_once(ground: Ground) -> bool:
    """A reset by prefix has written its rows and not named their token; the cleaner comes by."""
    ground.margins = replace(ground.margins, grace=timedelta(hours=1))
    gate = Gate("set_if", b"lake-", b"branches/main")
    with ground.held(
        gate, lambda: ground.catalog.branches.reset_branch("lake", "main", kind="common_prefix", path="x/")
    ):
        ground.clean()
        ground.clean()
    return ground.files("lake", "main") != {"x/1": 1, "x/2": 2}


def create_that_takes_its_time(ground: Ground) -> bool:
    """Commit and branch are written, the record is not, for longer than two looks are apart."""
    with ground.held(Gate("set_if", b"graveler", b"repos/slow"), lambda: ground.create("slow")):
        ground.scan()
        ground.rest()
        ground.clean()
    try:
        ground.catalog.branches.get_branch("slow", "main")
    except GravelerError:
        return True
    return False


def reset_that_ends_between_plan_and_deletion(ground: Ground) -> bool:
    """The token was unused for the grace, and is named before anything is deleted."""
    gate = Gate("set_if", b"lake-", b"branches/main")

    def let_it_end() -> None:
        gate.open()
        wait_for(lambda: ground.files("lake", "main").get("x/1") == 1)

    with ground.held(
        gate, lambda: ground.catalog.branches.reset_branch("lake", "main", kind="common_prefix", path="x/")
    ):
        ground.scan()
        ground.rest()
        ground.rows.before_view[3] = let_it_end
        return clean_or_put_back(ground) or ground.files("lake", "main") != {"x/1": 1, "x/2": 2}


def reset_that_ends_at_the_very_deletion(ground: Ground) -> bool:
    gate = Gate("set_if", b"lake-", b"branches/main")

    def let_it_end() -> None:
        gate.open()
        wait_for(lambda: ground.files("lake", "main").get("x/1") == 1)

    with ground.held(
        gate, lambda: ground.catalog.branches.reset_branch("lake", "main", kind="common_prefix", path="x/")
    ):
        ground.scan()
        ground.rest()
        ground.rows.before_delete.append(let_it_end)
        return clean_or_put_back(ground) or ground.files("lake", "main") != {"x/1": 1, "x/2": 2}


def commit_that_dies_after_sealing(ground: Ground) -> bool:
    """The uploads are in a sealed token from then on, until the next commit."""

    def die(operation: Operation) -> None:
        if operation.name in ("set", "set_if") and operation.key.startswith(b"commits/"):
            raise Crash

    ground.store.before = die
    with pytest.raises(Crash):
        ground.commit("lake", "main")
    ground.store.before = lambda *_: None
    ground.scan()
    ground.rest()
    ground.clean()
    return ground.files("lake", "main") != {"x/1": 11, "x/2": 2}


def lost_repository(ground: Ground) -> bool:
    """A slow delete removes the record of the next life of the name; a person puts the record back."""
    ground.create("pond")
    with ground.held(
        Gate("delete", b"graveler", b"repos/pond"),
        lambda: ground.catalog.repositories.delete_repository("pond"),
    ):
        ground.catalog.repositories.delete_repository("pond")
        ground.catalog.repositories.create_repository("pond", ground.lake.namespace("pond-again"))
        ground.upload("pond", "main", "f", 7)
        ground.commit("pond", "main")
        ground.upload("pond", "main", "g", 8)
        record = ground.kv.get(b"graveler", b"repos/pond")
    ground.margins = replace(ground.margins, id_age=ground.margins.grace)  # as if a day had passed
    ground.scan()
    ground.rest(1.5)
    clean_or_put_back(ground)
    ground.kv.set(b"graveler", b"repos/pond", record)
    try:
        return ground.files("pond", "main") != {"f": 7, "g": 8}
    except GravelerError:
        return True


def live_token_queued(ground: Ground) -> bool:
    wait_for(
        lambda: not list(ground.kv.scan(b"cleanup-tokens"))
    )  # nothing wakes the server's own drop after this
    time.sleep(0.2)
    branch = ground.catalog.branches.get_branch("lake", "main")
    ground.kv.set(b"cleanup-tokens", branch.staging_token.encode(), b"stub-value")
    ground.scan()
    ground.rest()
    ground.clean()
    return ground.files("lake", "main") != {"x/1": 11, "x/2": 2}


def pull_request_opened_again(ground: Ground) -> bool:
    partition = ground.catalog.repositories.get_repository("lake").partition
    key = b"repos/" + partition + b"/a/main"
    ground.margins = replace(ground.margins, id_age=ground.margins.grace)

    def index() -> bytes:
        pull = countdown_id(messages.from_timestamp(messages.Timestamp(seconds=int(time.time()) - 60)))
        ground.kv.set(b"pulls", key, messages.encode(messages.SecondaryIndex(primary_key=pull.encode())))
        return pull.encode()

    def open_again() -> None:
        ground.kv.set(partition, b"pulls/" + index(), b"")

    index()
    ground.scan()
    ground.rest()
    ground.rows.before_delete.append(open_again)
    ground.clean(kinds=["pull-index-dangling"])
    return not list(ground.kv.scan(b"pulls"))


def reset_frozen_beyond_the_grace_period(ground: Ground) -> bool:
    gate = Gate("set_if", b"lake-", b"branches/main")
    with ground.held(
        gate, lambda: ground.catalog.branches.reset_branch("lake", "main", kind="common_prefix", path="x/")
    ):
        ground.scan()
        ground.rest()
        ground.clean()
    clean_or_put_back(ground)
    return ground.files("lake", "main") != {"x/1": 1, "x/2": 2}


def unreadable_branch(ground: Ground) -> bool:
    partition = ground.catalog.repositories.get_repository("lake").partition
    ground.catalog.branches.create_branch("lake", "new", "main")
    ground.upload("lake", "new", "n", 5)
    record = ground.kv.get(partition, b"branches/new")
    ground.kv.set(partition, b"branches/new", b"\xff\xff\xff")
    for _ in range(2):
        try:
            ground.clean()
        except Exception:
            break
        ground.rest()
    ground.kv.set(partition, b"branches/new", record)
    return ground.files("lake", "new") != {"n": 5, "x/1": 1, "x/2": 2}


def task_under_way(ground: Ground) -> bool:
    task = ground.catalog.garbage.prepare_commits_async("lake")
    ground.scan()
    ground.rest()
    clean_or_put_back(ground)
    try:
        ground.catalog.garbage.prepare_commits_status("lake", task)
    except GravelerError:
        return True
    return False


def hook_before_the_record(ground: Ground) -> bool:
    """The hook of a repository's creation began before the repository was recorded."""
    ground.margins = replace(ground.margins, id_age=ground.margins.grace)
    created = ground.catalog.repositories.get_repository("lake").creation_date
    run = countdown_id(created - timedelta(seconds=20))
    key = f"repos/lake/runs/{run}".encode()
    start = messages.to_timestamp(created - timedelta(seconds=20))
    ground.kv.set(b"actions", key, messages.encode(messages.RunResultData(run_id=run, start_time=start)))
    ground.scan()
    ground.rest()
    clean_or_put_back(ground)
    return not list(ground.kv.scan(b"actions", key))


def deletion_under_way(ground: Ground) -> bool:
    ground.create("pond")
    ground.upload("pond", "main", "f", 7)
    token = ground.catalog.branches.get_branch("pond", "main").staging_token.encode()

    def die(operation: Operation) -> None:
        if operation.name == "delete" and operation.key.startswith(b"branches/"):
            raise Crash

    ground.store.before = die
    with pytest.raises(Crash):
        ground.catalog.repositories.delete_repository("pond")
    ground.store.before = lambda *_: None
    ground.margins = replace(ground.margins, id_age=ground.margins.grace)
    ground.scan()
    ground.rest(1.5)
    clean_or_put_back(ground)
    return not list(ground.kv.scan(token))


STORIES = {
    "the wait": reset_during_two_looks_at_once,
    "age from the id": create_that_takes_its_time,
    "look again before deleting": reset_that_ends_between_plan_and_deletion,
    "guards in the deletion": reset_that_ends_at_the_very_deletion,
    "sealed tokens are live": commit_that_dies_after_sealing,
    "a lost repository is a person's": lost_repository,
    "a queued token may be named": live_token_queued,
    "only the very bytes": pull_request_opened_again,
    "references read again afterwards": reset_frozen_beyond_the_grace_period,
    "a record that cannot be read ends the run": unreadable_branch,
    "a status lives for 48 hours": task_under_way,
    "a hook may begin before the record": hook_before_the_record,
    "a repository in deletion names its tokens": deletion_under_way,
}


@pytest.mark.parametrize("rule", STORIES)
def test_with_every_rule_nothing_is_lost(lake: Ground, rule: str) -> None:
    assert not STORIES[rule](lake)


def clean_or_put_back(ground: Ground) -> bool:
    try:
        ground.clean()
    except NamedAgainError:
        acknowledge_alarms(ground.state.writer, "trash", "looked into")
        return True
    return False


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
