"""Each rule of the cleaner is there for a loss: with all of them nothing is lost, without one something is.

An embedded lakeFS on PostgreSQL is held at an exact point of an operation while the cleaner runs beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.kv.rows import Guard
from dredge.lakefs.files import messages
from dredge.trash import apply, look, rules
from dredge.trash.apply import NamedAgainError
from dredge.trash.partition_rules import Classifier
from dredge.undo.alarms import acknowledge_alarms
from lakefs_embedded.errors import GravelerError
from tests.support.kv_hunt import Crash, Gate, Ground, hunting_ground
from tests.support.kv_world import countdown_id
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.system
GRACE = 0.4

type Patch = pytest.MonkeyPatch


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

    def die(operation: str, partition: bytes, key: bytes) -> None:
        if operation in ("set", "set_if") and key.startswith(b"commits/"):
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

    def die(operation: str, partition: bytes, key: bytes) -> None:
        if operation == "delete" and key.startswith(b"branches/"):
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


# How rules are switched off; tests/mutations does it to the others.


def only_the_current_token(patch: Patch) -> None:
    class OnlyCurrent:
        @staticmethod
        def decode(value: bytes) -> Any:
            return replace(references_branch.decode(value), sealed_tokens=())

    references_branch = look.Branch
    patch.setattr(look, "Branch", OnlyCurrent)


def believe_the_queue(patch: Patch) -> None:
    read = look.read_references

    def without_queued(view: Any, others: Any = ()) -> Any:
        found = read(view, others)
        for row in view.scan(b"cleanup-tokens"):
            found.tokens.pop(row.key, None)
        return found

    for module in (look, apply):
        patch.setattr(module, "read_references", without_queued)


def delete_by_key(patch: Patch) -> None:
    patch.setattr(
        "dredge.kv.postgres_rows._DELETE",
        "DELETE FROM kv USING unnest(%s::bytea[], %s::bytea[], %s::bytea[]) AS doomed (p, k, v) "
        "WHERE kv.partition_key = doomed.p AND kv.key = doomed.k RETURNING kv.partition_key, kv.key",
    )
    no_pull_guard(patch)


def no_pull_guard(patch: Patch) -> None:
    """The pull's own guard also notices; without it only the value decides."""
    made = apply.guards_of

    def fewer(*args: Any) -> list[Guard]:
        return [guard for guard in made(*args) if not guard.key.startswith(b"pulls/")]

    patch.setattr(apply, "guards_of", fewer)


def skip_what_cannot_be_read(patch: Patch) -> None:
    decode = look.Branch.decode

    class Lenient:
        @staticmethod
        def decode(value: bytes) -> Any:
            try:
                return decode(value)
            except Exception:
                return references_branch("new", "", "")

    references_branch = look.Branch
    patch.setattr(look, "Branch", Lenient)


def no_update_is_needed(patch: Patch) -> None:
    original = rules._expired

    def hasty(classifier: Classifier, *args: Any) -> Any:
        classifier.margins = replace(classifier.margins, expiry=timedelta(0))
        return original(classifier, *args)

    patch.setattr(rules, "_expired", hasty)


def runs_begin_after_the_record(patch: Patch) -> None:
    original = rules._action_kind

    def exact(classifier: Classifier, *args: Any) -> Any:
        classifier.margins = replace(classifier.margins, instance_margin=timedelta(0))
        return original(classifier, *args)

    patch.setattr(rules, "_action_kind", exact)
    patch.setattr(apply, "INSTANCE_MARGIN", timedelta(0))


def only_active_records_count(patch: Patch) -> None:
    read = look.read_references

    def without(view: Any, others: Any = ()) -> Any:
        found = read(view, others)
        gone = {name for name, record in found.partitions.items() if record.state != "active"}
        for token, owners in list(found.tokens.items()):
            if set(owners) <= gone:
                del found.tokens[token]
        return found

    for module in (look, apply):
        patch.setattr(module, "read_references", without)


CASES: dict[str, tuple[Callable[[Ground], bool], Callable[[Patch], None] | None]] = {
    "the wait": (reset_during_two_looks_at_once, None),
    "age from the id": (create_that_takes_its_time, None),
    "look again before deleting": (reset_that_ends_between_plan_and_deletion, None),
    "guards in the deletion": (reset_that_ends_at_the_very_deletion, None),
    "sealed tokens are live": (commit_that_dies_after_sealing, only_the_current_token),
    "a lost repository is a person's": (lost_repository, None),
    "a queued token may be named": (live_token_queued, believe_the_queue),
    "only the very bytes": (pull_request_opened_again, delete_by_key),
    "references read again afterwards": (reset_frozen_beyond_the_grace_period, None),
    "a record that cannot be read ends the run": (unreadable_branch, skip_what_cannot_be_read),
    "a status lives for 48 hours": (task_under_way, no_update_is_needed),
    "a hook may begin before the record": (hook_before_the_record, runs_begin_after_the_record),
    "a repository in deletion names its tokens": (deletion_under_way, only_active_records_count),
}


@pytest.mark.parametrize("rule", CASES)
def test_with_every_rule_nothing_is_lost(lake: Ground, rule: str) -> None:
    story, _ = CASES[rule]
    assert not story(lake)


@pytest.mark.parametrize("rule", [rule for rule, (_, switch_off) in CASES.items() if switch_off])
def test_without_this_rule_something_is_lost(lake: Ground, rule: str, monkeypatch: Patch) -> None:
    story, switch_off = CASES[rule]
    assert switch_off is not None
    switch_off(monkeypatch)
    assert story(lake)


def clean_or_put_back(ground: Ground) -> bool:
    try:
        ground.clean()
    except NamedAgainError:
        acknowledge_alarms(ground.state.writer, "looked into")
        return True
    return False


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
