"""What partitions must not be called trash, rule by rule; breaking the rule makes its test fail."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dredge import xid
from dredge.trash.findings import HELD, TrashFinding, TrashMargins
from dredge.trash.look import Look, read_look
from dredge.trash.partition_rules import Classifier, one_row
from tests.support.kv_world import DAY, METARANGE, START, World
from tests.support.trash import Watcher


def test_a_live_repository_has_no_findings(world: World, watcher: Watcher) -> None:
    partition, token = world.repository("lake")
    world.stage(token)
    world.import_status(partition, world.now)
    assert watcher.look(DAY) == {}
    assert watcher.look(DAY / 2) == {}


# Repository partitions


def test_a_young_instance_without_a_record_is_not_trash_however_often_it_is_seen(
    world: World, watcher: Watcher
) -> None:
    partition, _ = world.beginning(
        "lake", uid=xid.new_xid(world.now + 2 * DAY)
    )  # seen before its time is old enough
    assert watcher.verdict_of(partition) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=2 * DAY) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=DAY - timedelta(seconds=2)) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=timedelta(seconds=2)) == ("zombie-create", "wait")
    assert watcher.verdict_of(partition, after=DAY) == ("zombie-create", "trash")


def test_a_lost_repository_is_reported_and_never_trash(world: World, watcher: Watcher) -> None:
    partition, token = world.beginning("pond")
    second = world.commit(partition, parents=[world.commit(partition, metarange="").id])
    world.branch(partition, "main", second.id, token)
    for _ in range(5):
        assert watcher.verdict_of(partition, after=2 * DAY) == ("lost-repository", "report")


def test_a_usable_head_alone_makes_a_repository_lost(world: World, watcher: Watcher) -> None:
    by_branch = b"pond-" + xid.new_xid(world.now).encode()
    head = world.commit(by_branch, parents=["gone"])
    world.branch(by_branch, "main", head.id, world.token("pond", "main"))
    by_tag = b"lagoon-" + xid.new_xid(world.now).encode()
    world.tag(by_tag, "v1", world.commit(by_tag, parents=["gone"]).id)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert {found[p, None].kind for p in (by_branch, by_tag)} == {"lost-repository"}
    assert {found[p, None].verdict for p in (by_branch, by_tag)} == {"report"}


def test_staged_rows_make_a_recordless_partition_lost_and_stay_with_it(
    world: World, watcher: Watcher
) -> None:
    partition, token = world.beginning("pond")
    sealed = world.token("pond", "main")
    world.branch(partition, "main", "gone", token, sealed=[sealed])
    world.stage(sealed)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[partition, None].verdict == "report"
    assert (found[sealed.encode(), None].kind, found[sealed.encode(), None].verdict) == ("staging", "report")


@pytest.mark.parametrize("state", [1, 2])
def test_a_repository_in_deletion_or_creation_is_never_trash(
    world: World, watcher: Watcher, state: int
) -> None:
    partition, token = world.repository("lake")
    world.record(partition, state)
    world.stage(token)
    world.import_status(partition, world.now - 9 * DAY)
    world.pull_index(partition, "a", "b")
    owner = world.owner("lake", "gone", world.now)
    world.run("lake", world.now - 5 * DAY)
    world.run("lake", world.now, with_run=False)
    watcher.look(9 * DAY)
    found = watcher.look(9 * DAY)
    assert b"actions" not in {partition for partition, _ in found}
    assert all(finding.verdict != "trash" for finding in found.values())
    assert found[token.encode(), None].verdict == "wait"
    assert found[b"graveler", b"repos/lake"].verdict == "report"
    assert (b"mc-ownership", owner) not in found


def test_another_life_of_the_name_protects_nothing_and_is_not_touched(world: World, watcher: Watcher) -> None:
    old, _ = world.beginning("twin", uid=xid.new_xid(START - 9 * DAY))
    new, _ = world.repository("twin")
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[old, None].verdict == "trash"
    assert (new, None) not in found


def test_a_bare_repository_is_legitimate(world: World, watcher: Watcher) -> None:
    partition = b"barely-" + xid.new_xid(world.now).encode()
    world.record(partition)
    key = world.pull_index(partition, "a", "b")
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found.keys() == {(b"pulls", key)}


# Staging


def test_sealed_tokens_are_as_live_as_the_current_one(world: World, watcher: Watcher) -> None:
    partition, token = world.repository("lake")
    sealed = [world.token("lake", "main") for _ in range(3)]
    for each in (token, *sealed):
        world.stage(each)
    world.branch(partition, "main", "head", token, sealed=sealed)
    watcher.look(2 * DAY)
    assert not {finding.partition for finding in watcher.look(2 * DAY).values()} - {partition}


def test_a_branch_of_any_repository_keeps_a_token_whatever_its_text(world: World, watcher: Watcher) -> None:
    partition, _ = world.repository("other")
    token = world.stage(world.token("lake", "a-b"))
    world.branch(partition, "strange", "head", token.decode())
    watcher.look(2 * DAY)
    assert (token, None) not in watcher.look(2 * DAY)


def test_a_queued_token_is_trash_when_it_has_waited_and_its_marker_waits_longer(
    world: World, watcher: Watcher
) -> None:
    token = world.token("keeper", "main")
    world.stage(token)
    world.queue(token)
    assert watcher.verdict_of(token.encode()) == ("staging-queued", "wait")
    found = watcher.look(DAY)
    assert found[token.encode(), None].verdict == "trash"
    assert found[b"cleanup-tokens", token.encode()].verdict == "wait"


def test_a_queued_token_that_a_branch_names_is_live(world: World, watcher: Watcher) -> None:
    _, token = world.repository("lake")
    world.stage(token)
    world.queue(token)
    watcher.look(2 * DAY)
    found = watcher.look(2 * DAY)
    assert found[token.encode(), None].verdict == "report"
    assert found[b"cleanup-tokens", token.encode()].kind == "marker-of-live-token"
    assert found[b"cleanup-tokens", token.encode()].verdict == "report"


def test_a_marker_goes_only_when_its_partition_was_empty_for_a_grace(world: World, watcher: Watcher) -> None:
    token = world.token("keeper", "main").encode()
    world.queue(token.decode())
    assert watcher.verdict_of(b"cleanup-tokens", token) == ("marker", "wait")
    world.stage(token.decode())
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "wait")
    for row in list(world.kv.scan(token)):
        world.kv.delete(token, row.key)
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "wait")
    assert watcher.verdict_of(b"cleanup-tokens", token, DAY) == ("marker", "trash")


@pytest.mark.parametrize(
    "partition",
    [
        b"lake",
        b"lake-nothing",
        b"lake-main:not-a-uuid",
        b"Lake-main:00000000-0000-4000-8000-000000000000",
        b"\xff-main:00000000-0000-4000-8000-000000000000",
        b"lake-dc0o931ksdu976aheec",
        b"la-dc0o931ksdu976aheea0",
        b"gravelers",
    ],
)
def test_unknown_partitions_are_never_touched(world: World, watcher: Watcher, partition: bytes) -> None:
    world.kv.set(partition, b"k", b"v")
    watcher.look(9 * DAY)
    assert watcher.verdict_of(partition, after=99 * DAY) == ("unknown", "report")


# Keys


# What is told of each


def told(finding: TrashFinding) -> tuple[str, str, int, int, datetime | None]:
    return finding.kind, finding.verdict, finding.rows, finding.size_bytes, finding.since


def test_of_a_repository_that_is_not_in_use_every_key_waits_and_its_record_is_told(
    world: World, watcher: Watcher
) -> None:
    dying, _ = world.repository("dying")
    made, _ = world.repository("made")
    record = {1: world.record(dying, state=1), 2: world.record(made, state=2)}
    size = {
        state: len(b"repos/" + name) + len(record[state]) for state, name in ((1, b"dying"), (2, b"made"))
    }
    found = watcher.look()
    assert told(found[b"graveler", b"repos/dying"]) == ("repository-in-deletion", "report", 1, size[1], None)
    assert told(found[b"graveler", b"repos/made"]) == ("repository-initial", "wait", 1, size[2], None)
    for row in world.kv.scan(dying):
        kind = row.key.split(b"/")[0].decode()
        assert told(found[dying, row.key]) == (kind, "wait", 1, len(row.key) + len(row.value), None)
    young = watcher.look(DAY - timedelta(seconds=1))[b"graveler", b"repos/made"]
    assert young.verdict == "wait"
    old = watcher.look(timedelta(seconds=1))[b"graveler", b"repos/made"]
    assert told(old) == ("repository-initial", "report", 1, size[2], None)


MARGINS = TrashMargins()
INSTANT = timedelta(microseconds=1)
EMPTY = ""
"""A commit without a metarange: the first one of a repository."""


def classifier_of(look: Look) -> Classifier:
    return Classifier(look, START, MARGINS)


def fill(world: World, partition: bytes, parts: str) -> None:
    """Write parts of a repository; a branch or a tag names the commit that comes before it, or one that is gone."""
    made = ""
    for part in parts.split(", "):
        match part:
            case "first" | "first with data":
                made = world.commit(partition, metarange=EMPTY if part == "first" else METARANGE).id
                world.store.now += DAY
            case "first of generation 2":
                found = world.commit(partition, metarange=EMPTY)
                changed = replace(found, generation=2)
                world.kv.set(partition, b"commits/" + found.id.encode(), changed.encode())
            case "history":
                made = world.commit(partition, parents=[made or "gone"]).id
            case "main" | "side" | "main gone":
                name, _, gone = part.partition(" ")
                world.branch(partition, name, gone or made, world.token("pond", name))
            case "tag" | "tag gone":
                world.tag(partition, "v1", "gone" if part == "tag gone" else made)
            case "staged":
                sealed = world.token("pond", "main")
                world.branch(partition, "main", "gone", world.token("pond", "main"), sealed=[sealed])
                world.stage(sealed)
            case key:
                world.kv.set(partition, key.encode(), b"")
    world.store.now = START


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ("history, main, tag gone", "lost"),
        ("history, tag, main gone", "lost"),
        ("first, history", "lost"),
        ("first with data", "lost"),
        ("staged", "lost"),
        ("first, main, first", "lost"),
        ("first, main, tag gone", "lost"),
        ("first, main, side", "lost"),
        ("first, first", "unclear"),
        ("first of generation 2", "unclear"),
        ("first of generation 2, main gone", "unclear"),
        ("first, settings/x", "unclear"),
        ("repo-metadata, repo-metadata2", "unclear"),
        ("history, main gone", "unclear"),
        ("tag gone", "unclear"),
        ("first", "zombie"),
        ("first, main", "zombie"),
        ("history", "leftovers"),
        ("settings/x, imports/x, tasks/x, pulls/x, copies/x, repo-metadata", "leftovers"),
    ],
)
def test_a_partition_without_a_record_is_what_its_rows_make_of_it(
    world: World, parts: str, status: str
) -> None:
    partition = b"pond-" + xid.new_xid(START - 9 * DAY).encode()
    fill(world, partition, parts)
    assert classifier_of(read_look(world.store)).statuses[partition] == status


@pytest.mark.parametrize(("age", "is_young"), [(DAY - INSTANT, True), (DAY, False), (-DAY, True)])
def test_an_id_is_young_up_to_the_margin_and_when_it_is_of_the_future(
    world: World, age: timedelta, is_young: bool
) -> None:
    assert classifier_of(read_look(world.store)).is_young(START - age) == is_young


@pytest.mark.parametrize(
    ("reasons", "verdict", "code"),
    [({}, "trash", ""), ({"young": "too young"}, "wait", ""), ({"held": "not proved"}, "wait", HELD)],
)
def test_what_is_unused_is_trash_unless_it_is_young_or_held(
    world: World, reasons: dict[str, str], verdict: str, code: str
) -> None:
    row, found = one_row(b"k", b"value"), classifier_of(read_look(world.store))
    finding = found.candidate(b"p", b"k", "kind", "unused", row, since=START - DAY, **reasons)
    assert (finding.verdict, finding.code, finding.since) == (verdict, code, START - DAY)
    assert (finding.rows, finding.size_bytes, finding.digest) == (1, 6, row.digest)
